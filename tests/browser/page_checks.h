#pragma once

#include <string>

/// What the browser tests ask a page, in JavaScript. A check gives a list of complaints. None uses
/// what the page's own script defines.
namespace tessera::test {

/// Clicks every column's button twice and looks whether the rows are in order.
inline constexpr const char* kSortsBothWays = R"js((() => {
  const complaints = [];
  const collator = new Intl.Collator('en', { numeric: true });
  const value = (cell) => cell.dataset.v ?? cell.textContent;
  const isNumber = (text) => text !== '' && !Number.isNaN(Number(text));
  const before = (a, b) => {
    if (isNumber(a) && isNumber(b)) return Number(a) <= Number(b);
    if (isNumber(a) !== isNumber(b)) return isNumber(a);
    return collator.compare(a, b) <= 0;
  };
  for (const table of document.querySelectorAll('table')) {
    const body = table.tBodies[0], all = body.rows.length;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      for (const way of ['ascending', 'descending']) {
        head.querySelector('.sort').click();
        const where = `${table.id} column ${column} ${way}`;
        if (head.getAttribute('aria-sort') !== way) complaints.push(`${where}: aria-sort`);
        if (table.querySelectorAll('[aria-sort]:not([aria-sort=none])').length !== 1) {
          complaints.push(`${where}: other columns say they are sorted`);
        }
        const values = [...body.rows].map((row) => value(row.cells[column]));
        if (values.length !== all) complaints.push(`${where}: rows are lost`);
        const filled = values.filter((text) => text !== '');
        if (values.slice(0, filled.length).includes('')) complaints.push(`${where}: empty cells not last`);
        for (let i = 1; i < filled.length; i++) {
          const [a, b] = way === 'ascending' ? [filled[i - 1], filled[i]] : [filled[i], filled[i - 1]];
          if (!before(a, b)) complaints.push(`${where}: ${filled[i - 1]} stands before ${filled[i]}`);
        }
      }
    });
  }
  return complaints;
})())js";

inline constexpr const char* kTipText = R"js((() => {
  const tip = document.getElementById('tip');
  return tip.hidden || tip.getBoundingClientRect().height === 0 ? '' : tip.textContent;
})())js";

/// [x, y, text] of an element's middle, scrolled into view.
inline std::string centre_of(const std::string& selector, int index) {
  return R"js((async () => {
    const element = document.querySelectorAll(')js" +
         selector + "')[" + std::to_string(index) + R"js(];
    for (let e = element; e; e = e.parentElement) if (e.tagName === 'DETAILS') e.open = true;
    element.scrollIntoView({ block: 'center', inline: 'center' });
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const box = element.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2, element.dataset.tip];
  })())js";
}

/// Every shape with a title, of the drawing that is shown, shows it under the pointer, and again
/// when arrow keys come to it.
inline constexpr const char* kEveryShapeHasItsTip = R"js((() => {
  const complaints = [], tip = document.getElementById('tip');
  const shown = () => tip.hidden ? '' : tip.textContent;
  document.querySelectorAll('details').forEach((details) => { details.open = true; });
  for (const box of document.querySelectorAll('[data-marks]')) {
    const drawings = [...box.querySelectorAll('svg')].filter((e) => e.getClientRects().length > 0);
    const titlesOf = () => drawings.flatMap((e) => [...e.querySelectorAll('title')]);
    if (drawings.length !== 1) complaints.push(`${drawings.length} drawings are shown`);
    const titles = titlesOf();
    const expected = titles.map((title) => title.textContent);
    titles.map((title) => title.parentElement).forEach((shape, i) => {
      shape.dispatchEvent(new PointerEvent('pointerover', { bubbles: true }));
      if (shown() !== expected[i]) complaints.push(`pointer: '${shown()}' instead of '${expected[i]}'`);
    });
    if (titlesOf().length > 0) complaints.push('two tooltips: the browser has its own still');
    box.focus();
    box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
    expected.forEach((text) => {
      box.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
      if (shown() !== text) complaints.push(`arrow: '${shown()}' instead of '${text}'`);
    });
  }
  return complaints;
})())js";

inline constexpr const char* kPictureHasFocus =
    "document.activeElement.matches('[data-marks]') ? 1 : 0";

/// Elements that reach beyond the window and are not inside a box that scrolls.
inline constexpr const char* kNothingSticksOut = R"js((() => {
  const scrolls = (element) => {
    for (let e = element.parentElement; e && e !== document.body; e = e.parentElement) {
      if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(e).overflowX)) return true;
    }
    return false;
  };
  document.querySelectorAll('details').forEach((details) => { details.open = true; });
  return [...document.body.querySelectorAll('*')].filter((e) => {
    const box = e.getBoundingClientRect();
    return box.width > 0 && (box.right > innerWidth + 0.5 || box.left < -0.5) && !scrolls(e);
  }).map((e) => `${e.tagName}.${e.className} ${e.textContent.slice(0, 40)}`);
})())js";

/// Pictures that scroll sideways, and in them words that are small on the screen, cut off, or on
/// others.
inline constexpr const char* kPicturesRead = R"js((() => {
  const complaints = [];
  document.querySelectorAll('details').forEach((details) => { details.open = true; });
  for (const box of document.querySelectorAll('figure .box')) {
    if (box.scrollWidth > box.clientWidth + 1) complaints.push(`scrolls: ${box.ariaLabel}`);
  }
  const drawings = [...document.querySelectorAll('figure svg')];
  const shown = drawings.filter((drawing) => drawing.getClientRects().length > 0);
  if (shown.length * 2 !== drawings.length) complaints.push('not one of two drawings is shown');
  for (const drawing of shown) {
    const page = drawing.getBoundingClientRect(), seen = [];
    const scale = page.width / drawing.viewBox.baseVal.width;
    for (const text of drawing.querySelectorAll('text')) {
      const box = text.getBoundingClientRect(), words = text.textContent;
      const size = parseFloat(getComputedStyle(text).fontSize) * scale;
      if (size < 10.95) complaints.push(`${size.toFixed(1)} px: ${words}`);
      if (box.left < page.left - 1 || box.right > page.right + 1 || box.bottom > page.bottom + 1) {
        complaints.push(`cut off: ${words}`);
      }
      if (text.hasAttribute('transform')) continue; // slanted: its box is larger than it is
      for (const [other, theirs] of seen) {
        if (box.left < other.right - 1 && other.left < box.right - 1 && box.top < other.bottom - 4
            && other.top < box.bottom - 4) complaints.push(`'${words}' on '${theirs}'`);
      }
      seen.push([box, words]);
    }
  }
  return complaints;
})())js";

inline constexpr const char* kPageColour = "getComputedStyle(document.body).backgroundColor";
inline constexpr const char* kInkOnPaper =
    "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]";

/// Text with a contrast below 4.5 : 1 (WCAG 2, level AA) to what is behind it. Text on coloured
/// cells of pictures is not looked at here.
inline constexpr const char* kContrast = R"js((() => {
  document.querySelectorAll('details').forEach((details) => { details.open = true; });
  const rgb = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
  const luminance = (c) => c.slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = rgb(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const seen = new Map();
  for (const e of document.body.querySelectorAll('*')) {
    const words = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim() !== '');
    if (!words || ['SCRIPT', 'title'].includes(e.tagName) || e.matches('.ts-on, .ts-ink')) continue;
    const style = getComputedStyle(e);
    const ink = rgb(e.tagName === 'text' ? style.fill : style.color), page = behind(e);
    const [a, b] = [luminance(ink), luminance(page)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) seen.set(`${ink} on ${page}`, `${ratio.toFixed(2)} ${e.tagName}.${e.getAttribute('class')}`);
  }
  return [...seen.entries()];
})())js";

inline std::string set_filter(const std::string& words) {
  return "(() => { const input = document.querySelector('[data-filter=\"e1-rows\"]'); input.value "
         "= '" +
         words + "'; input.dispatchEvent(new Event('input')); })()";
}

inline constexpr const char* kShownRows = R"js((() => [
  [...document.querySelectorAll('#e1-rows tbody tr')].filter((row) => row.offsetParent !== null).length,
  document.querySelector('[data-count="e1-rows"]').textContent])())js";

/// What only works with the page's script, and is shown without it.
inline constexpr const char* kNothingUselessIsShown = R"js((() =>
  [...document.querySelectorAll('.needs-js')].filter((e) => e.getClientRects().length > 0)
    .map((e) => e.outerHTML))())js";

/// Number of rows once they stop becoming more.
inline constexpr const char* kWhenAllRowsAreThere = R"js((async () => {
  const rows = () => document.querySelectorAll('#e2-rows tbody tr').length;
  for (let i = 0; i < 100 && document.getElementById('e2-rows-note'); i++) {
    await new Promise((done) => setTimeout(done, 50));
  }
  return rows();
})())js";

}  // namespace tessera::test
