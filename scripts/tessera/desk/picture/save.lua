-- Writes a picture as the kind of file that its name says.

local core = require "tessera.core"
local host = require "tessera.host"

-- Pixels per SVG unit: sharp on today's screens and in print.
local zoom = "2"

-- PDF and PNG come from a program that draws SVG.
local function converted(svg, kind, who)
  if host.sandboxed then
    core.raise("unsupported", ("%s: %s files are made by another program, and the sandbox starts none; save as .svg")
      :format(who, kind:upper()), who)
  end
  local words = { "rsvg-convert", "--format", kind }
  if kind == "png" then words[4], words[5] = "--zoom", zoom end
  local ok, status, file, message = pcall(host.run_program, words, svg)
  if not ok then
    core.raise("not_found", ("%s: %s files are made by rsvg-convert, which cannot be started (%s); install the "
      .. "package librsvg2-bin, or save as .svg (bash scripts/setup.sh pictures installs it)"):format(who, kind:upper(),
      tostring(status)), who)
  end
  if status ~= 0 then
    message = message:gsub("%s+", " ")
    core.raise("io", ("%s: rsvg-convert failed with status %d: %s"):format(who, status, message), who)
  end
  return file
end

--- makers: svg and, where there are some, txt and tex: functions that return the content. `any_svg`: whatever is not
--- .png or .pdf is SVG.
return function(who, file, makers)
  if type(file) ~= "string" then
    core.raise("invalid_argument", ("%s: a path belongs here, not a %s"):format(who, type(file)), who)
  end
  local kind = file:match "%.(%w+)$"
  if makers.any_svg and kind ~= "png" and kind ~= "pdf" then kind = "svg" end
  if kind == "png" or kind == "pdf" then
    core.write_file(file, converted(makers.svg(), kind, who))
  elseif kind and makers[kind] then
    core.write_file(file, makers[kind]())
  else
    core.raise("invalid_argument", ("%s: '%s' ends in none of .svg, .pdf, .png%s"):format(who, file,
      makers.txt and ", .tex, .txt" or ""), who)
  end
end
