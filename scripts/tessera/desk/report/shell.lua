-- The page around what a report or an answer shows: one HTML file with its style and its script in it, which a policy
-- keeps to these, so that it asks for nothing and runs nothing else.

local core = require "tessera.core"
local host = require "tessera.host"
local html = require "tessera.desk.report.html"
local store = require "tessera.store"
local svg = require "tessera.desk.picture.svg"

local h = html.h

local own = host.installation.scripts_dir .. "/tessera/desk/report/"

local function read_own(name) return core.read_file(own .. name) end

local digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

-- 'sha256-...' as a content security policy wants it: base64 of the hash.
local function policy_hash(text)
  local hex, out = store.sha256(text), {}
  for at = 1, #hex, 6 do
    local part = hex:sub(at, at + 5)
    local value = tonumber(part .. ("0"):rep(6 - #part), 16)
    for shift = 3, 0, -1 do
      local index = math.floor(value / 64 ^ shift) % 64 + 1
      out[#out + 1] = (3 - shift) * 3 < #part * 2 and digits:sub(index, index) or "="
    end
  end
  return "'sha256-" .. table.concat(out) .. "'"
end

--- The text of a page. given: title; `summary`, a paragraph below it; `before`, what stands above the sections;
--- sections.
return function(given)
  local style, script = read_own "report.css" .. svg.style() .. "\n", read_own "report.js"
  local policy = ("default-src 'none'; style-src %s; script-src %s; base-uri 'none'; form-action 'none'"):format(
    policy_hash(style), policy_hash(script))
  local head = h("head", nil, h("meta", { charset = "utf-8" }),
    h("meta", { ["http-equiv"] = "Content-Security-Policy", content = policy }),
    h("meta", { name = "viewport", content = "width=device-width, initial-scale=1" }),
    h("meta", { name = "color-scheme", content = "light dark" }), h("title", nil, given.title .. " · Tessera report"),
    h("style", nil, html.raw(style)))
  local body = h("body", nil, html.raw(svg.definitions()),
    h("header", nil, h("h1", nil, given.title), given.summary,
      h("button", { type = "button", id = "theme", class = "needs-js" }, "Theme: as the system")),
    given.before, h("main", nil, given.sections),
    h("footer", { class = "muted" }, ("Made by tessera %s."):format(host.version.version or "")),
    h("div", { id = "tip", role = "tooltip", hidden = true }), h("script", nil, html.raw(script)))
  return "<!DOCTYPE html>\n" .. html.text(h("html", { lang = "en" }, head, body)) .. "\n"
end
