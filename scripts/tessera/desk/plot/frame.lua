-- What all plots share: title, legend, axes with labels and grid, and where in the page the data goes.

local svg = require "tessera.desk.picture.svg"

local M = {}

local pad, line_height, note_height, most_title_lines = 14, 18, 16, 3
local least_name = 300 -- pixels that a name in a legend may have, where the page is not narrower
local most_entry_lines = { roomy = 7, narrow = 14 } -- of a legend
local least_share = 0.5 -- of a picture's height that its data have

local function title(frame, opt)
  if not opt.title then return end
  frame.top = frame.page:heading(pad, 24, opt.title, opt.width - 2 * pad, most_title_lines) - 4
end

-- entries: { { name, draw = function(page, x, y) } }, in as many lines as they need.
local function legend(frame, entries, opt)
  if #entries == 0 then return end
  local x, y = pad, frame.top + 12
  local most_lines = most_entry_lines[opt.width < svg.roomy_width and "narrow" or "roomy"] - 1
  for i, entry in ipairs(entries) do
    local text = svg.fit(entry.name, math.min(math.max(opt.width / 2, least_name), opt.width - 2 * pad - 26), 11)
    local width = 26 + svg.text_width(text, 11) + 14
    if x + width > opt.width - pad and x > pad then x, y = pad, y + line_height end
    if y - frame.top > most_lines * line_height then
      frame.page:text(x, y + 4, ("and %d more"):format(#entries - i + 1), { class = "ts-muted ts-small" })
      break
    end
    entry.draw(frame.page, x + 10, y)
    frame.page:text(x + 24, y + 4, text, { class = "ts-text ts-small", tip = text ~= entry.name and entry.name or nil })
    x = x + width
  end
  frame.top = y + 14
end

local function widest(axis, size)
  local most = 0
  for _, tick in ipairs(axis.ticks) do most = math.max(most, svg.text_width(tick.text, size)) end
  return most
end

-- Words under their band: straight where there is room, slanted where not, cut, some left out where there are too many.
local function word_labels(frame, axis)
  local band = frame.width / #axis.ticks
  local slanted = frame.slanted
  local every = math.ceil((slanted and 14 or 12) / band)
  for i, tick in ipairs(axis.ticks) do
    if (i - 1) % every == 0 then
      local x, y = frame.x(tick.value), frame.bottom + 17
      local given = { class = "ts-text ts-small", ["text-anchor"] = slanted and "end" or "middle" }
      local text = svg.fit(tick.text, slanted and 150 or band - 6, 11)
      if text ~= tick.text then given.tip = tick.text end
      if slanted then given.transform = ("rotate(-35 %s %s)"):format(svg.number(x + 4), svg.number(y - 4)) end
      frame.page:text(slanted and x + 4 or x, slanted and y - 4 or y, text, given)
    end
  end
end

local function number_labels(frame, axis)
  local last = -math.huge
  for _, tick in ipairs(axis.ticks) do
    local x, half = frame.x(tick.value), svg.text_width(tick.text, 11) / 2
    frame.page:line(x, frame.top, x, frame.bottom, { class = "ts-grid" })
    if x - half > last + 4 then
      frame.page:text(x, frame.bottom + 17, tick.text, { class = "ts-text ts-small", ["text-anchor"] = "middle" })
      last = x + half
    end
  end
end

local function left_labels(frame, axis, most)
  local every = axis.categories and math.ceil(13 / ((frame.bottom - frame.top) / #axis.ticks)) or 1
  for i, tick in ipairs(axis.ticks) do
    local y = frame.y(tick.value)
    if not axis.categories then frame.page:line(frame.left, y, frame.right, y, { class = "ts-grid" }) end
    if (i - 1) % every == 0 then
      local text = svg.fit(tick.text, most, 11)
      frame.page:text(frame.left - 7, y + 4, text, { class = "ts-text ts-small", ["text-anchor"] = "end",
        tip = text ~= tick.text and tick.text or nil })
    end
  end
end

--- A page with everything but the data. parts: x_axis, y_axis, x_label, y_label, legend, note, `above`: pixels
--- kept free above the plot. frame.x and frame.y turn values into pixels.
function M.new(opt, parts)
  local frame = { page = svg.page(opt.width, opt.height, parts.summary), top = 12 }
  title(frame, opt)
  legend(frame, not opt.no_legend and parts.legend or {}, opt)
  frame.top = frame.page:lines(pad, frame.top + 10, svg.wrap(parts.y_label, opt.width - 2 * pad, 11), note_height,
    { class = "ts-muted ts-small" }) - 2 + (parts.above or 0)
  local most = math.min(widest(parts.y_axis, 11), parts.y_axis.categories and 180 or 90)
  frame.left = pad + most + 10
  frame.right = opt.width - pad - (parts.right or 8)
  frame.width = frame.right - frame.left
  local below = 46
  if parts.x_axis.categories then
    local longest = widest(parts.x_axis, 11)
    local band = frame.width / #parts.x_axis.ticks
    frame.slanted = longest + 8 > band and band < 110
    if frame.slanted then below = 40 + math.min(longest, 150) * 0.58 end
  end
  local x_label = svg.wrap(parts.x_label, frame.width, 11)
  local note = parts.note and svg.wrap(parts.note, opt.width - 2 * pad, 11) or {}
  local more = (#x_label + #note - 1) * note_height
  below = below + more
  frame.bottom = math.max(opt.height - below, frame.top + least_share * opt.height)
  frame.page.height = math.max(opt.height, frame.bottom + below)
  function frame.x(value) return frame.left + parts.x_axis.at(value) * frame.width end
  function frame.y(value) return frame.bottom - parts.y_axis.at(value) * (frame.bottom - frame.top) end
  left_labels(frame, parts.y_axis, most)
  if parts.x_axis.categories then word_labels(frame, parts.x_axis) else number_labels(frame, parts.x_axis) end
  local foot = frame.page:lines((frame.left + frame.right) / 2, frame.page.height - 10 - more, x_label, note_height,
    { class = "ts-muted ts-small", ["text-anchor"] = "middle" })
  frame.page:lines(pad, foot + 2, note, note_height, { class = "ts-muted ts-small" })
  frame.page:line(frame.left, frame.bottom, frame.right, frame.bottom, { class = "ts-axis" })
  return frame
end

--- A page with title and legend alone, and where they end: the head of small multiples.
function M.heading(opt, entries)
  local frame = { page = svg.page(opt.width, opt.height, opt.summary), top = 12 }
  title(frame, opt)
  legend(frame, entries, opt)
  return frame.page, frame.top
end

--- A picture that says why there is nothing to see.
function M.empty(opt, why)
  local page = svg.page(opt.width, math.min(opt.height, 160), "no data: " .. why)
  local frame = { page = page, top = 12 }
  title(frame, opt)
  page:hatched(pad, frame.top + 6, opt.width - 2 * pad, page.height - frame.top - 20, { opacity = "0.4" })
  page:text(opt.width / 2, frame.top + (page.height - frame.top) / 2 - 6, "no data",
    { class = "ts-text ts-title ts-halo", ["text-anchor"] = "middle" })
  page:lines(opt.width / 2, frame.top + (page.height - frame.top) / 2 + 14, svg.wrap(why, opt.width - 60, 12, 3),
    note_height, { class = "ts-muted ts-halo", ["text-anchor"] = "middle" })
  return page
end

return M
