-- Writes a picture as the kind of file that its name says.

local core = require "tessera.core"
local host = require "tessera.host"

-- Pixels per SVG unit: sharp on today's screens and in print.
local zoom = "2"

local function png(svg, who)
  if host.sandboxed then
    core.raise("unsupported", ("%s: PNG files are made by another program, and the sandbox starts none; save as .svg")
      :format(who), who)
  end
  local ok, status, image, message = pcall(host.run_program, { "rsvg-convert", "--zoom", zoom, "--format", "png" }, svg)
  if not ok then
    core.raise("not_found", ("%s: PNG files are made by rsvg-convert, which cannot be started (%s); install the "
      .. "package librsvg2-bin, or save as .svg"):format(who, tostring(status)), who)
  end
  if status ~= 0 then
    message = message:gsub("%s+", " ")
    core.raise("io", ("%s: rsvg-convert failed with status %d: %s"):format(who, status, message), who)
  end
  return image
end

--- makers: svg and, where there is one, txt: functions that return the content. `any_svg`: whatever is not .png is SVG.
return function(who, file, makers)
  if type(file) ~= "string" then
    core.raise("invalid_argument", ("%s: a path belongs here, not a %s"):format(who, type(file)), who)
  end
  local kind = file:match "%.(%w+)$"
  if makers.any_svg and kind ~= "png" then kind = "svg" end
  if kind == "png" then
    core.write_file(file, png(makers.svg(), who))
  elseif kind and makers[kind] then
    core.write_file(file, makers[kind]())
  else
    core.raise("invalid_argument", ("%s: '%s' ends in none of .svg, .png%s"):format(who, file,
      makers.txt and ", .txt" or ""), who)
  end
end
