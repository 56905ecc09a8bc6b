// Nodes of the document, changed only where they are no longer as they should be.

export function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function give(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// Children of `parent`, one an item: those that stay are kept as they are, and moved only where the order changed.
export function keep(parent, items, keyOf, create, update) {
  const known = parent.kept || (parent.replaceChildren(), parent.kept = new Map());
  const focused = document.activeElement;
  const wanted = new Set(items.map(keyOf));
  for (const [key, node] of known) {
    if (!wanted.has(key)) { node.remove(); known.delete(key); }
  }
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let node = known.get(key);
    if (!node) known.set(key, node = create(item));
    update(node, item);
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
  }
  if (focused && focused !== document.activeElement && parent.contains(focused)) focused.focus();
}

// Offsets from left to right: [class, how many]. What expired is cut short: the rest is what matters.
export function picture(parts) {
  return make("div", { class: "picture", role: "img" }, ...parts.map((name) => make("i", { class: `part ${name}` })));
}

export function fillPicture(node, values, label) {
  const rest = values.slice(1).reduce((sum, value) => sum + value, 0);
  values.forEach((value, index) => {
    const part = node.children[index];
    const share = index === 0 ? Math.min(value, rest * 0.2 || 1) : value;
    const grow = String(share > 0 ? share / (rest || 1) : 0);
    if (part.style.flexGrow !== grow) part.style.flexGrow = grow;
    part.hidden = !(value > 0);
  });
  give(node, "aria-label", label);
  give(node, "title", label);
}
