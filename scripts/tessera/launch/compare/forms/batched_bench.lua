-- What llama-batched-bench writes, as a table or as JSON lines: a batch of B requests that start together, PP prompt
-- tokens each, or shared by all, and TG tokens of answers.

local core = require "tessera.core"

local M = {}

--- Whether a decoded object is a row of it.
function M.is(json) return type(json) == "table" and json.t_pp ~= nil and json.t_tg ~= nil and json.pl ~= nil end

-- The run of a row: { pp, tg, pl, t_pp, t_tg }.
local function run_of(row, path)
  for _, key in ipairs { "pp", "tg", "pl", "t_pp", "t_tg" } do
    if type(row[key]) ~= "number" or row[key] <= 0 then
      core.refuse(path, ("it is of llama-batched-bench, and %s of a row is no number above 0"):format(key))
    end
  end
  return { kind = "serve", path = path, tool = "llama-batched-bench", prompt_tokens = row.pp, output_tokens = row.tg,
    max_concurrency = row.pl, num_prompts = row.pl, completed = row.pl, ttft_s = row.t_pp, tpot_s = row.t_tg / row.tg,
    throughput_tok_s = row.pl * row.tg / (row.t_pp + row.t_tg) }
end

--- Runs of decoded rows.
function M.runs(objects, path)
  local runs = {}
  for i, object in ipairs(objects) do runs[i] = run_of(object, path) end
  return runs
end

local columns = { PP = "pp", TG = "tg", B = "pl", ["T_PP s"] = "t_pp", ["T_TG s"] = "t_tg" }

local function cells_of(line)
  local cells = {}
  for cell in (line:match "^%s*|(.*)$" or ""):gmatch "%s*([^|]-)%s*|" do cells[#cells + 1] = cell end
  return cells
end

--- Runs of a text; nil where it has no such table.
function M.text_runs(text, path)
  if not (text:find("T_PP s", 1, true) and text:find("S_TG t/s", 1, true)) then return nil end
  local runs, keys = {}, nil
  for line in text:gmatch "[^\r\n]+" do
    local cells = cells_of(line)
    if cells[1] == "PP" then
      keys = {}
      for i, cell in ipairs(cells) do keys[i] = columns[cell] end
    elseif keys and tonumber(cells[1]) then
      local row = {}
      for i, cell in ipairs(cells) do row[keys[i] or i] = tonumber(cell) end
      runs[#runs + 1] = run_of(row, path)
    end
  end
  if #runs == 0 then core.refuse(path, "a table of llama-batched-bench without rows; is it cut off?") end
  return runs
end

return M
