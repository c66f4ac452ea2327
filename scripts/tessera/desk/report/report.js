// What a report does beyond being read: sorts and filters tables, adds the rows that came as data, shows tooltips by
// pointer and by keyboard, changes the theme, opens everything for print. Text of users is only ever set as text.
(() => {
  'use strict';
  const root = document.documentElement;
  root.classList.add('js');

  // --- rows that came as data
  const cellOf = ([text, exact, kind, why], column) => {
    const cell = document.createElement(column === 0 ? 'th' : 'td');
    if (column === 0) cell.scope = 'row';
    if (exact) cell.dataset.v = exact;
    if (!kind.startsWith('chip')) {
      if (kind) cell.className = kind;
      cell.textContent = text;
      return cell;
    }
    const chip = document.createElement('span');
    chip.className = kind;
    chip.textContent = text;
    if (!why) {
      cell.append(chip);
      return cell;
    }
    const details = document.createElement('details'), summary = document.createElement('summary');
    const pre = document.createElement('pre');
    cell.dataset.v = text;
    pre.textContent = why;
    summary.append(chip);
    details.append(summary, pre);
    cell.append(details);
    return cell;
  };
  const addRest = (data) => {
    const id = data.dataset.rest, body = document.getElementById(id).tBodies[0];
    const rest = JSON.parse(data.textContent);
    data.remove();
    let at = 0;
    const some = () => {
      const part = document.createDocumentFragment();
      for (const end = Math.min(at + 500, rest.length); at < end; at++) {
        const row = document.createElement('tr');
        row.append(...rest[at].map(cellOf));
        part.append(row);
      }
      body.append(part);
      if (at < rest.length) return setTimeout(some);
      document.getElementById(id + '-note').remove();
      tables.get(id).changed();
    };
    setTimeout(some);
  };

  // --- sorting and filtering
  const collator = new Intl.Collator('en', { numeric: true });
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v ?? cell.textContent;
  };
  // Numbers by size, before words; empty cells last, whichever way.
  const compare = (a, b, sign) => {
    if (a === '' || b === '') return (a === '') - (b === '');
    const x = Number(a), y = Number(b);
    if (!Number.isNaN(x) && !Number.isNaN(y)) return sign * (x - y);
    if (Number.isNaN(x) !== Number.isNaN(y)) return sign * (Number.isNaN(x) ? 1 : -1);
    return sign * collator.compare(a, b);
  };
  // What a row is found by: its words, and numbers as they are typed, 1299 where it reads 1,299.
  const texts = new WeakMap();
  const textOf = (row) => {
    if (!texts.has(row)) {
      const exact = [...row.cells].map((cell) => cell.dataset.v ?? '');
      texts.set(row, `${row.textContent} ${exact.join(' ')}`.toLowerCase());
    }
    return texts.get(row);
  };
  // Of many rows a page at a time is shown: the browser lays out no others.
  const rowsAPage = 100;
  const makePager = (place, turned) => {
    let page = 0, pages = 1;
    const text = document.createElement('span');
    const button = (label, step) => {
      const made = document.createElement('button');
      made.type = 'button';
      made.textContent = label;
      made.addEventListener('click', () => { page += step; turned(); });
      return made;
    };
    const back = button('Previous', -1), on = button('Next', 1);
    place.append(back, text, on);
    return {
      first() { page = 0; },
      slice(count) {
        pages = Math.max(1, Math.ceil(count / rowsAPage));
        page = Math.min(Math.max(page, 0), pages - 1);
        text.textContent = `page ${page + 1} of ${pages}`;
        back.disabled = page === 0;
        on.disabled = page === pages - 1;
        place.hidden = pages === 1;
        return [page * rowsAPage, (page + 1) * rowsAPage];
      },
    };
  };
  const makeTable = (table) => {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    const input = document.querySelector(`[data-filter="${table.id}"]`);
    const count = document.querySelector(`[data-count="${table.id}"]`);
    const place = document.querySelector(`[data-pager="${table.id}"]`);
    const pager = place && makePager(place, () => filter());
    let sorted = null;
    const sort = () => {
      const { column, sign } = sorted;
      const rows = [...body.rows].map((row) => ({ row, value: valueOf(row, column) }));
      rows.sort((a, b) => compare(a.value, b.value, sign));
      body.append(...rows.map((item) => item.row));
      heads.forEach((head, i) => head.setAttribute('aria-sort',
        i !== column ? 'none' : sign > 0 ? 'ascending' : 'descending'));
    };
    const filter = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const found = [];
      for (const row of body.rows) {
        const text = words.length ? textOf(row) : '';
        row.hidden = !words.every((word) => text.includes(word));
        if (!row.hidden) found.push(row);
      }
      const shown = found.length;
      const [first, end] = pager ? pager.slice(shown) : [0, shown];
      found.forEach((row, i) => row.classList.toggle('off', i < first || i >= end));
      count.textContent = words.length ? `${shown} of ${body.rows.length} rows` : `${shown} rows`;
    };
    heads.forEach((head, column) => head.querySelector('.sort').addEventListener('click', () => {
      sorted = { column, sign: sorted?.column === column && sorted.sign > 0 ? -1 : 1 };
      sort();
      pager?.first();
      if (input) filter();
    }));
    input?.addEventListener('input', () => { pager?.first(); filter(); }); // the summary has none
    if (pager) filter();
    return { changed() {
      if (sorted) sort();
      if (input) filter();
    } };
  };
  const tables = new Map([...document.querySelectorAll('table.results')].map((t) => [t.id, makeTable(t)]));
  document.querySelectorAll('script[data-rest]').forEach(addRest);

  // --- tooltips: on elements with data-tip, and on the shapes of pictures that have a <title>
  const tip = document.getElementById('tip');
  let owner = null;
  document.querySelectorAll('[data-tip]').forEach((element) => element.removeAttribute('title'));
  // The browser's own tooltip must not show as well: the title's text moves to an attribute at first use.
  const tipOf = (element) => {
    if (element.dataset.tip) return element.dataset.tip;
    const title = [...element.children].find((child) => child.tagName === 'title');
    if (!title) return null;
    element.dataset.tip = title.textContent;
    element.setAttribute('aria-label', title.textContent);
    title.remove();
    return element.dataset.tip;
  };
  const tipped = (target) => {
    for (let element = target; element instanceof Element; element = element.parentElement) {
      if (element.tagName === 'svg') return null;
      if (tipOf(element)) return element;
    }
    return null;
  };
  const show = (element) => {
    const text = tipOf(element), box = element.getBoundingClientRect();
    hide();
    owner = element;
    tip.textContent = text;
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = Math.max(8, Math.min(box.left + box.width / 2 - width / 2, root.clientWidth - width - 8));
    const top = box.top - height - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${top >= 4 ? top : Math.min(box.bottom + 8, innerHeight - height - 4)}px`;
    element.setAttribute('aria-describedby', 'tip');
  };
  const hide = () => {
    tip.hidden = true;
    owner?.removeAttribute('aria-describedby');
    owner?.classList.remove('at');
    owner = null;
  };
  document.addEventListener('pointerover', (event) => {
    const element = tipped(event.target);
    if (element === owner) return;
    if (element) show(element); else hide();
  });
  document.addEventListener('focusin', (event) => {
    const element = event.target.dataset?.tip ? event.target : null;
    if (element) show(element); else hide();
  });
  document.addEventListener('focusout', hide);
  // A tooltip does not follow what scrolls away; scrolling to the next mark is another matter.
  let movedAt = -Infinity;
  document.addEventListener('scroll', () => { if (performance.now() - movedAt > 200) hide(); }, true);

  // Arrow keys move through the marks of the picture that has the focus: of its drawings one is shown.
  const marksOf = (box) => [...box.querySelectorAll('svg')].filter((drawing) => drawing.getClientRects().length > 0)
    .flatMap((drawing) => [...drawing.querySelectorAll('*')]).filter((e) => e.tagName !== 'title' && tipOf(e));
  const move = (box, key) => {
    const marks = marksOf(box);
    if (marks.length === 0) return;
    const last = marks.length - 1, at = marks.indexOf(owner);
    const next = key === 'Home' ? 0 : key === 'End' ? last
      : key === 'ArrowRight' ? Math.min(at + 1, last) : Math.max(at - 1, 0);
    movedAt = performance.now();
    marks[next].scrollIntoView({ block: 'nearest', inline: 'nearest' });
    show(marks[next]);
    marks[next].classList.add('at');
  };
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') return hide();
    const box = event.target.closest?.('[data-marks]');
    if (!box || !['ArrowLeft', 'ArrowRight', 'Home', 'End'].includes(event.key)) return;
    event.preventDefault();
    move(box, event.key);
  });

  // --- theme and print
  const themes = [['', 'as the system'], ['light', 'light'], ['dark', 'dark']];
  let theme = 0;
  document.getElementById('theme').addEventListener('click', (event) => {
    theme = (theme + 1) % themes.length;
    if (themes[theme][0]) root.dataset.theme = themes[theme][0]; else delete root.dataset.theme;
    event.currentTarget.textContent = `Theme: ${themes[theme][1]}`;
  });
  let closed = [];
  addEventListener('beforeprint', () => {
    closed = [...document.querySelectorAll('details:not([open])')];
    closed.forEach((details) => { details.open = true; });
  });
  addEventListener('afterprint', () => closed.forEach((details) => { details.open = false; }));
})();
