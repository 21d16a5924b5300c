// By width of the window: how far the page, and which elements, run out of it.
const wide = page.documentElement, result = [];
for (const width of [320, 400, 700, 1100, 1400]) {
  frame.style.width = width + 'px';
  const beyond = all('main *, header *, footer *').filter(node => !node.closest('.wide, svg, del, ins') && seen(node)
    && node.getBoundingClientRect().right > view.innerWidth + 1).map(node => node.outerHTML.slice(0, 80));
  result.push([view.innerWidth, wide.scrollWidth - wide.clientWidth, ...beyond]);
}
return result;
