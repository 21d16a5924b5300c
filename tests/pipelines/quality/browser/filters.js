// What is seen of the page after each choice of an operator, or of a reason.
const state = () => ({
  operators: all('.browse .operator').filter(seen).map(node => node.querySelector('h3').textContent),
  made: all('.browse .made ol > li').filter(seen).length,
  reasons: [...new Set(all('.browse .refused .reason').filter(seen).map(node => node.firstChild.data.trim()))],
  plots: all('.browse svg.plot').filter(seen).length,
  nothing: all('.nothing').filter(seen).length,
  controls: all('#controls .controls ol > li').filter(seen).length,
});
const label = node => node.parentElement.firstChild.nextSibling.data.trim();
const choose = (group, name) => all(group + ' input').find(node => label(node) == name).click();
const result = {start: state(), operators: {}, reasons: {}};
for (const node of all('.by-operator input:not(#all)')) { node.click(); result.operators[label(node)] = state(); }
page.getElementById('all').click();
const reasons = all('.by-reason input:not(#every, #kept)');
for (const node of reasons) { node.click(); result.reasons[label(node)] = state(); }
page.getElementById('kept').click(); result.kept = state();
page.getElementById('every').click(); result.end = state();
choose('.by-operator', 'noun'); choose('.by-reason', 'sibling quantity'); result.none = state();
return result;
