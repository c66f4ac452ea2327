-- Where a result comes from: the script, the commit around it, this machine and this program.

local files = require "tessera.files"
local host = require "tessera.host"
local store = require "tessera.store"

local M = {}

--- Text of a script; "" where there is none or it cannot be read.
function M.content(path) return path ~= "" and path ~= "-" and files.text(path) or "" end

--- Path of the script that the program was started with; "" for code from the command line.
function M.script_path()
  local arguments = rawget(_G, "arg")
  return arguments and arguments[0] or ""
end

--- What a run says of itself, for store:start_run; "" where there is no script.
function M.of(path)
  local text = M.content(path)
  return {
    script_path = path, script_text = text, script_hash = text ~= "" and store.sha256(text) or "",
    git_commit = store.git_commit(path ~= "" and path or "."), machine = store.machine(), build = host.version,
  }
end

return M
