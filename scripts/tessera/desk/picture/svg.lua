-- The one writer of SVG: a page that shapes and texts are put on, with tooltips, for a file of its own or for the
-- inside of an HTML page. Colours come by class, so that a page follows the reader's light or dark theme.

local escape = require "tessera.desk.escape"

local M = {}

--- Series 1 to 8: Okabe and Ito's colours first, darker where a line needs it, then what stays apart from these for
--- colour-blind readers (tests/lua/colours_spec.lua); the second is for dark pages. Markers and dashes differ as well,
--- so that colour never says anything alone.
M.series_colours = {
  { "#0072b2", "#4fa8de" }, { "#d55e00", "#f0824a" }, { "#009e73", "#1fb58c" }, { "#a3538a", "#dd9cc6" },
  { "#111111", "#f2f2f2" }, { "#783018", "#b07040" }, { "#001890", "#6f7cf5" }, { "#6b6b6b", "#e6d93c" },
}
M.dashes = { "", "7 3", "2 3", "9 3 2 3", "12 4", "4 2", "1 2", "9 3 2 3 2 3" }
M.markers = { "circle", "square", "triangle", "diamond", "down", "cross", "plus", "ring" }

local light, dark = {}, {}

local function rule(class, property, in_light, in_dark)
  light[#light + 1] = (".%s{%s:%s}"):format(class, property, in_light)
  if in_dark then dark[#dark + 1] = { class, ("{%s:%s}"):format(property, in_dark) } end
end

local function make_rules()
  rule("ts-page", "fill", "#ffffff", "#16191d")
  rule("ts-text", "fill", "#1c1f23", "#e9ecef")
  rule("ts-muted", "fill", "#555c63", "#a9b1ba")
  rule("ts-on", "fill", "#ffffff")
  rule("ts-ink", "fill", "#111111")
  rule("ts-grid", "stroke", "#e3e6e9", "#2f353b")
  rule("ts-axis", "stroke", "#878e95", "#767f88")
  rule("ts-track", "fill", "#e9ecef", "#2f353b")
  rule("ts-edge", "stroke", "#ffffff", "#16191d")
  rule("ts-halo", "stroke", "#ffffff", "#16191d")
  rule("ts-hatch", "stroke", "#a0a7ae", "#78818a")
  for i, colours in ipairs(M.series_colours) do
    rule("ts-f" .. i, "fill", colours[1], colours[2])
    rule("ts-k" .. i, "stroke", colours[1], colours[2])
  end
end
make_rules()

--- Style rules of every page. A page in a dark theme: the reader's, or data-theme on the outermost element.
function M.style()
  local lines = {
    ".ts-svg text{font:12px system-ui,'DejaVu Sans',sans-serif}.ts-svg .ts-small{font-size:11px}",
    ".ts-svg .ts-title{font-size:15px;font-weight:600}",
    ".ts-bits{pointer-events:none;stroke-width:4;paint-order:stroke}",
    ".ts-line{fill:none;stroke-width:2;stroke-linejoin:round}",
    ".ts-halo{stroke-width:4;stroke-linejoin:round;paint-order:stroke}",
    ".ts-grid,.ts-axis,.ts-edge{stroke-width:1}.ts-hatch{stroke-width:1.5}",
    table.concat(light),
  }
  local by_reader, by_theme = {}, {}
  for i, item in ipairs(dark) do
    by_reader[i] = (":root:not([data-theme=light]) .%s%s"):format(item[1], item[2])
    by_theme[i] = ("[data-theme=dark] .%s%s"):format(item[1], item[2])
  end
  lines[#lines + 1] = "@media screen and (prefers-color-scheme:dark){" .. table.concat(by_reader) .. "}"
  lines[#lines + 1] = "@media screen{" .. table.concat(by_theme) .. "}"
  return table.concat(lines, "\n")
end

local function number(x) return (("%.1f"):format(x):gsub("%.0$", ""):gsub("^%-0$", "0")) end
M.number = number

-- Estimated, since only the reader's browser knows its fonts: a little wide, so that nothing overlaps.
local wide, narrow = "[mwMW@%%]", "[iljtfr%.,:;'|!%(%)%[%] ]"
--- Width of a text in pixels at a font size.
function M.text_width(text, size)
  local em = 0
  for character in text:gmatch "[%z\1-\127\192-\247][\128-\191]*" do
    if character:find(narrow) then em = em + 0.34
    elseif character:find(wide) then em = em + 0.92
    elseif #character >= 3 then em = em + 1
    elseif character:find "%u" then em = em + 0.7
    else em = em + 0.6 end
  end
  return em * (size or 12)
end

--- `text` cut to that many pixels.
function M.fit(text, width, size)
  text = escape.clean(text)
  if M.text_width(text, size) <= width then return text end
  local parts, used = {}, 0.9 * (size or 12)
  for character in text:gmatch "[%z\1-\127\192-\247][\128-\191]*" do
    used = used + M.text_width(character, size)
    if used > width then break end
    parts[#parts + 1] = character
  end
  return table.concat(parts) .. "…"
end

--- `text` in lines of at most that many pixels, broken at spaces; a longer word is cut, and so is what a line after
--- the last of `most` would need.
function M.wrap(text, width, size, most)
  local lines = {}
  for word in escape.clean(text):gmatch "%S+" do
    local longer = #lines > 0 and lines[#lines] .. " " .. word
    if longer and (#lines == most or M.text_width(longer, size) <= width) then lines[#lines] = longer
    else lines[#lines + 1] = word end
  end
  for i, line in ipairs(lines) do lines[i] = M.fit(line, width, size) end
  return lines
end

--- Pixels of pictures across a page and on a telephone, and from how many on labels stand beside what they name.
M.wide_width, M.narrow_width, M.roomy_width = 960, 340, 600

local Page = {}
Page.__index = Page

--- A new page of that many pixels. `title` says in words what the picture shows.
function M.page(width, height, title)
  return setmetatable({ width = width, height = height, title = title, parts = {}, uses_hatch = false }, Page)
end

local attribute_order = { "class", "fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "text-anchor",
  "transform", "rx" }

local function attributes(given)
  local parts = {}
  for _, name in ipairs(attribute_order) do
    local value = given and given[name]
    if value and value ~= "" then parts[#parts + 1] = (' %s="%s"'):format(name, escape.xml(value)) end
  end
  return table.concat(parts)
end

function Page:element(name, geometry, given)
  local start = ("<%s %s%s"):format(name, geometry, attributes(given))
  local tip = given and given.tip
  self.parts[#self.parts + 1] = tip and ("%s><title>%s</title></%s>"):format(start, escape.xml(tip), name)
    or start .. "/>"
end

function Page:rect(x, y, w, h, given)
  self:element("rect", ('x="%s" y="%s" width="%s" height="%s"'):format(number(x), number(y), number(math.max(w, 0)),
    number(math.max(h, 0))), given)
end

--- A place where a number would stand if there were one: hatched, never a zero.
function Page:hatched(x, y, w, h, given)
  self.uses_hatch = true
  given.fill = "url(#ts-hatch)"
  self:rect(x, y, w, h, given)
end

function Page:line(x1, y1, x2, y2, given)
  self:element("line", ('x1="%s" y1="%s" x2="%s" y2="%s"'):format(number(x1), number(y1), number(x2), number(y2)),
    given)
end

--- points: { { x, y }, ... }
function Page:polyline(points, given)
  local parts = {}
  for i, p in ipairs(points) do parts[i] = number(p[1]) .. "," .. number(p[2]) end
  self:element("polyline", ('points="%s"'):format(table.concat(parts, " ")), given)
end

function Page:polygon(points, given)
  local parts = {}
  for i, p in ipairs(points) do parts[i] = number(p[1]) .. "," .. number(p[2]) end
  self:element("polygon", ('points="%s"'):format(table.concat(parts, " ")), given)
end

--- An interval at a place: a line between its ends, each with a bar.
function Page:whisker(x, low, high, given)
  self:element("path", ('d="M%s %sV%sm-4 0h8M%s %sm-4 0h8"'):format(number(x), number(low), number(high), number(x),
    number(low)), given)
end

local shapes = {
  square = "M-4-4h8v8h-8z", triangle = "M0-5l5 9h-10z", diamond = "M0-5.5l5.5 5.5-5.5 5.5-5.5-5.5z",
  down = "M0 5l5-9h-10z", cross = "M-5-3l2-2 3 3 3-3 2 2-3 3 3 3-2 2-3-3-3 3-2-2 3-3z",
  plus = "M-1.5-5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z",
  ring = "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0zM-2.5 0a2.5 2.5 0 1 1 5 0a2.5 2.5 0 1 1-5 0z",
}

--- The marker of series `index` at a point.
function Page:marker(index, x, y, tip)
  local given = { class = "ts-f" .. M.slot(index) .. " ts-edge", tip = tip }
  local shape = shapes[M.markers[(index - 1) % #M.markers + 1]]
  if not shape then
    self:element("circle", ('cx="%s" cy="%s" r="4.5"'):format(number(x), number(y)), given)
    return
  end
  given.transform = ("translate(%s %s)"):format(number(x), number(y))
  self:element("path", ('d="%s"'):format(shape), given)
end

--- Thousands of points as one element: a dot each, without tooltips.
function Page:dots(index, points)
  local parts = {}
  for i, p in ipairs(points) do parts[i] = ("M%s %sh0"):format(number(p[1]), number(p[2])) end
  self:element("path", ('d="%s" stroke-linecap="round"'):format(table.concat(parts)),
    { class = "ts-k" .. M.slot(index), fill = "none", ["stroke-width"] = "4", opacity = "0.6" })
end

function Page:text(x, y, content, given)
  given = given or {}
  given.class = given.class or "ts-text"
  local tip = given.tip and ("<title>%s</title>"):format(escape.xml(given.tip)) or ""
  self.parts[#self.parts + 1] = ('<text x="%s" y="%s"%s>%s%s</text>'):format(number(x), number(y), attributes(given),
    tip, escape.xml(content))
end

--- Lines of text below one another, the first with its foot at y; the foot of the line after the last.
function Page:lines(x, y, lines, leading, given)
  for i, line in ipairs(lines) do self:text(x, y + (i - 1) * leading, line, given) end
  return y + #lines * leading
end

--- A title in as many lines as it needs, or `most`: it is bold, which takes more room.
function Page:heading(x, y, text, width, most)
  local lines = M.wrap(text, width, 17, most)
  return self:lines(x, y, lines, 18, { class = "ts-text ts-title",
    tip = table.concat(lines, " "):find "…" and text or nil })
end

--- What another page shows, moved so that its corner is at (x, y).
function Page:place(other, x, y)
  self.uses_hatch = self.uses_hatch or other.uses_hatch
  self.parts[#self.parts + 1] = ('<g transform="translate(%s %s)">%s</g>'):format(number(x), number(y),
    table.concat(other.parts, "\n"))
end

--- The colour of series `index`, 1 to 8: there are no more that readers could tell apart.
function M.slot(index) return (index - 1) % #M.series_colours + 1 end

-- A page that is hidden hides the patterns that it defines, from others too: pages of HTML have this one for all.
local hatch = '<defs><pattern id="ts-hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
  .. 'patternTransform="rotate(45)"><path d="M0 0v6" class="ts-hatch"/></pattern></defs>'

--- What the pictures of a HTML page share.
function M.definitions()
  return '<svg xmlns="http://www.w3.org/2000/svg" class="ts-definitions" width="0" height="0" aria-hidden="true">'
    .. hatch .. "</svg>"
end

--- The page as text: a file of its own, or (`inside`) for a HTML page that has `M.style()` and `M.definitions()`.
function Page:to_string(inside)
  local head = ('<svg xmlns="http://www.w3.org/2000/svg" class="ts-svg" viewBox="0 0 %d %d" width="%d" height="%d" '
    .. 'role="img" aria-label="%s">'):format(self.width, self.height, self.width, self.height, escape.xml(self.title))
  local lines = { head }
  if not inside then
    lines[#lines + 1] = "<title>" .. escape.xml(self.title) .. "</title>"
    lines[#lines + 1] = "<style>\n" .. M.style() .. "\n</style>"
    lines[#lines + 1] = ('<rect class="ts-page" width="%d" height="%d"/>'):format(self.width, self.height)
    if self.uses_hatch then lines[#lines + 1] = hatch end
  end
  lines[#lines + 1] = table.concat(self.parts, "\n")
  lines[#lines + 1] = "</svg>\n"
  return table.concat(lines, "\n")
end

return M
