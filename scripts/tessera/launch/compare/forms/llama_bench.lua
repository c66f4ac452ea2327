-- What llama-bench writes, as JSON, JSON lines, CSV, Markdown or SQL: rates of one request, of prompts (pp512) and of
-- answers (tg128). A prompt's rate and an answer's make one run; an answer behind so many tokens (tg128 @ d4096) is one
-- of its own, and a prompt behind some is left out, since no plan reads one in two parts.

local core = require "tessera.core"
local csv = require "tessera.launch.compare.forms.csv"

local M = {}

-- A row: { model, file, num_parameters, prompt, output, depth, tok_s }.
local function of_object(row, path)
  local tok_s, prompt, output = tonumber(row.avg_ts), tonumber(row.n_prompt), tonumber(row.n_gen)
  if not (tok_s and prompt and output and tok_s > 0) then
    core.refuse(path, "it is of llama-bench, and a row of it has no n_prompt, n_gen and avg_ts above 0")
  end
  return { model = row.model_type, file = row.model_filename, num_parameters = tonumber(row.model_n_params),
    prompt = prompt, output = output, depth = tonumber(row.n_depth) or 0, tok_s = tok_s }
end

--- Whether a decoded object is a row of llama-bench.
function M.is(json) return type(json) == "table" and json.avg_ts ~= nil and json.n_gen ~= nil end

-- "pp512", "tg128 @ d4096", "pp512+tg128".
local function lengths_of(test)
  return tonumber(test:match "pp ?(%d+)") or 0, tonumber(test:match "tg ?(%d+)") or 0,
    tonumber(test:match "@ ?d ?(%d+)") or 0
end

local function of_markdown(text)
  local rows, columns = {}, nil
  for line in text:gmatch "[^\r\n]+" do
    local cells = {}
    for cell in (line:match "^%s*|(.*)%s*$" or ""):gmatch "%s*([^|]-)%s*|" do cells[#cells + 1] = cell end
    local is_header = false
    for _, cell in ipairs(cells) do is_header = is_header or cell == "t/s" end
    if is_header then
      columns = {}
      for i, cell in ipairs(cells) do columns[cell] = i end
    elseif columns and #cells > 1 and not cells[1]:find "^:?%-%-" then
      local tok_s = tonumber((cells[columns["t/s"]] or ""):match "^[%d.]+")
      local size, unit = (cells[columns.params or 0] or ""):match "^([%d.]+) (%a)"
      if tok_s and columns.test then
        local prompt, output, depth = lengths_of(cells[columns.test] or "")
        rows[#rows + 1] = { model = cells[columns.model], prompt = prompt, output = output, depth = depth,
          tok_s = tok_s, num_parameters = size and tonumber(size) * (({ B = 1e9, M = 1e6 })[unit] or 1) }
      end
    end
  end
  return rows
end

local function of_csv(text, path)
  local rows, list = {}, csv(text)
  for i = 2, #list do
    local object = {}
    for c, name in ipairs(list[1]) do object[name] = list[i][c] end
    rows[#rows + 1] = of_object(object, path)
  end
  return rows
end

-- INSERT INTO llama_bench (names) VALUES ('...', ...);
local function of_sql(text, path)
  local rows = {}
  for names, values in text:gmatch "INSERT INTO %S+ %(([^()]*)%)%s*VALUES%s*(%b());" do
    local object, keys = {}, {}
    for name in names:gmatch "[%w_]+" do keys[#keys + 1] = name end
    local i = 0
    for value in values:gmatch "'([^']*)'" do
      i = i + 1
      object[keys[i] or i] = value
    end
    rows[#rows + 1] = of_object(object, path)
  end
  return rows
end

-- The model's id where its file's name says one, else what llama-bench calls it, "llama 8B Q4_K - Medium".
local function file_id(row) return row.file and row.file:match "([^/\\]+)$" end

local function runs_of(rows, path)
  local runs, answers = {}, {}
  for _, row in ipairs(rows) do
    if row.prompt == 0 and row.output > 0 then answers[#answers + 1] = row end
  end
  local function add(prompt, answer)
    local row = prompt or answer
    local run = { kind = "serve", path = path, tool = "llama-bench", model = file_id(row),
      num_parameters = row.num_parameters, max_concurrency = 1, num_prompts = 1, weights = row.model,
      prompt_tokens = prompt and prompt.prompt or math.max(1, answer.depth), output_tokens = answer and answer.output,
      ttft_s = prompt and prompt.prompt / prompt.tok_s, tpot_s = answer and 1 / answer.tok_s }
    runs[#runs + 1] = run
  end
  local paired = {}
  for _, row in ipairs(rows) do
    if row.prompt > 0 and row.output == 0 and row.depth == 0 then
      local answer
      for _, each in ipairs(answers) do
        if each.file == row.file and each.model == row.model and each.depth == 0 then
          answer = answer or each
        end
      end
      if answer then paired[answer] = true end
      add(row, answer)
    end
  end
  for _, answer in ipairs(answers) do
    if not paired[answer] then add(nil, answer) end
  end
  return runs
end

-- Runs of rows, where any says prompts or answers alone.
local function told_apart(rows, path)
  local runs = runs_of(rows, path)
  if #runs == 0 then
    core.refuse(path, "llama-bench's rows of prompts and answers together (-pg), or of prompts behind others (-d) "
      .. "alone, which no plan predicts; -p 512 -n 128 measures what one does")
  end
  return runs
end

--- Runs of decoded rows.
function M.runs(objects, path)
  local rows = {}
  for i, object in ipairs(objects) do rows[i] = of_object(object, path) end
  return told_apart(rows, path)
end

--- Runs of a text; nil where it is none of llama-bench's.
function M.text_runs(text, path)
  local rows
  if text:find "|%s*t/s%s*|" and text:find "|%s*test%s*|" then
    rows = of_markdown(text)
  elseif text:find "INSERT INTO [%w_]* ?%(" and text:find "avg_ts" then
    rows = of_sql(text, path)
  elseif (text:match "^%s*([^\r\n]*)" or ""):find "avg_ts" then
    rows = of_csv(text, path)
  else
    return nil
  end
  if #rows == 0 then core.refuse(path, "a table of llama-bench without rows; is it cut off?") end
  return told_apart(rows, path)
end

return M
