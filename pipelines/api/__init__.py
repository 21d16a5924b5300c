"""The functions of `import negcap`."""
