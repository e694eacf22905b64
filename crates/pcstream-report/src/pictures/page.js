for (const e of document.querySelectorAll('.script')) e.style.display = 'block';
// No button elements: browsers repeat no head of a table on paper that has one.
const makeButton = (element, press) => {
  element.setAttribute('role', 'button');
  element.tabIndex = 0;
  element.onclick = press;
  element.onkeydown = event => {
    if (event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    press();
  };
};
const table = document.getElementById('contexts');
if (table) {
  const body = table.tBodies[0];
  const value = (row, i) => (row.cells[i].dataset.v ?? row.cells[i].textContent).replace(/^-$/, '');
  table.querySelectorAll('th').forEach((head, i) => {
    const button = document.createElement('span');
    button.textContent = head.textContent;
    head.replaceChildren(button);
    let down = false;
    makeButton(button, () => {
      down = !down;
      const number = head.classList.contains('n'), sign = number === down ? -1 : 1;
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [value(a, i), value(b, i)];
        // What has no value is last, in both orders.
        if (!x || !y) return !x - !y;
        return sign * (number ? x - y : x.localeCompare(y, undefined, { numeric: true }));
      });
      body.append(...rows);
      table.querySelectorAll('th').forEach(h => h.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', number === down ? 'descending' : 'ascending');
    });
  });
  document.getElementById('filter').oninput = event => {
    const wanted = event.target.value.toLowerCase(), rows = [...body.rows];
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    const shown = rows.filter(row => !row.hidden).length;
    document.getElementById('found').textContent = wanted ? `${shown} of ${rows.length} contexts` : '';
  };
}
for (const svg of document.querySelectorAll('#flame-written svg, #flame-copied svg')) {
  const all = svg.viewBox.baseVal.width, boxes = [...svg.querySelectorAll('.box')];
  const names = boxes.map(box => box.querySelector('title').textContent.replace(/: [^:]*$/, ''));
  const zoom = box => {
    const [from, share] = [+box.dataset.x, +box.dataset.w];
    boxes.forEach((other, i) => {
      const left = Math.max((other.dataset.x - from) / share, 0) * all;
      const right = Math.min((+other.dataset.x + +other.dataset.w - from) / share, 1) * all;
      const width = right - left, [rect, text] = [other.querySelector('rect'), other.querySelector('text')];
      other.style.display = width > 0.2 ? '' : 'none';
      rect.setAttribute('x', left);
      rect.setAttribute('width', Math.max(width - 0.5, 0.3));
      text.setAttribute('x', left + 3);
      const fits = Math.floor(width / 7.2) - 1;
      text.textContent = fits < 3 ? '' : names[i].length > fits ? names[i].slice(0, fits - 1) + '~' : names[i];
    });
  };
  // What is inside an image is not read out.
  svg.setAttribute('role', 'group');
  for (const box of boxes) makeButton(box, () => zoom(box));
}
