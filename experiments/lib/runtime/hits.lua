-- Commands that are hit from outside while they run: masters and workers that die or stop, links that break.

local core = require "tessera.core"
local host = require "tessera.host"

local M = {}

M.program = host.program

local most_starts = 8 -- of one run

-- What hits, as shell: $master is its process, $port its port; true where somebody was hit.
local worker = [[w=$(pgrep -r D,R,S,T -P $master -f '[s]tage --rank' | shuf -n 1) && [ -n "$w" ] && ]]
local hits = {
  killed = worker .. "kill -KILL $w",
  stopped = worker .. "kill -STOP $w",
  paused = worker .. "kill -STOP $w && sleep 1.5 && kill -CONT $w",
  cut = worker .. [[p=$(ss -Htnp state established | grep "pid=$w," | shuf -n 1 | awk '{print $3}' | sed 's/.*://') ]]
    .. [[&& [ -n "$p" ] && ss --kill -Htn state established "( sport = :$p )" | grep -q .]],
  stranger = [[bash -c "head -c 4096 /dev/urandom > /dev/tcp/127.0.0.1/$port"]],
  master = "kill -KILL $master",
}
local per_run = { killed = 3 }

-- $1: after how many seconds each hit comes; $2: what hits; $3: where its master listens; $4: gets a line for each hit;
-- then the command.
local harness = [[
  delays=$1 hit=$2 port=$3 note=$4; shift 4
  "$@" > "$note.out" 2> "$note.err" & master=$!
  for delay in $delays; do
    sleep $delay
    (eval "$hit") > /dev/null 2>&1 && echo hit >> "$note"
  done
  wait $master]]

local function shell(text, ...) return host.run_program({ "sh", "-c", text, "sh", ... }, "") end

local function free_port()
  local _, out = shell "shuf -i 20000-30000 -n 1"
  return tonumber(out)
end

local function has_workers(port) return shell("pgrep -f \"[s]tage --rank.*127.0.0.1:$1\"", tostring(port)) == 0 end

--- Status, output and errors of a command.
function M.run(command) return host.run_program(command, "") end

--- One run, begun again until it is done. Returns what it said at its end, and how often it was hit and begun.
--- @param files table note: a path that its files begin with; left: runs after which a worker was left
--- @param draw function numbers of [0, 1)
function M.run_through(kind, command, files, duration_s, draw)
  local starts, status = 0, nil
  while status ~= 0 do
    starts = starts + 1
    if starts > most_starts then return nil, starts - 1 end
    local delays = {}
    if starts == 1 or kind == "master" and starts < 4 then
      for i = 1, per_run[kind] or 1 do delays[i] = ("%.3f"):format(draw() * duration_s * (i == 1 and 1 or 0.7)) end
    end
    local port = free_port()
    local words = { "sh", "-c", harness, "sh", table.concat(delays, " "), hits[kind], tostring(port), files.note }
    for _, word in ipairs(command) do words[#words + 1] = word end
    words[#words + 1], words[#words + 2] = "--port", tostring(port)
    status = host.run_program(words, "")
    shell "sleep 0.2"
    if has_workers(port) then
      shell "sleep 5" -- who has lost its master ends within 4 s of the last ping
      if has_workers(port) then files.left = files.left + 1 end
    end
  end
  return core.from_json(core.read_file(files.note .. ".out")), starts
end

return M
