-- The models that experiments/quality measures, each with a text to measure on and another one to calibrate with.
--
-- "grammar-opt-5m" ships and reads texts of tessera.models.grammar, which are written when they are asked for. The
-- other is a real one: TESSERA_WEIGHTS names a folder or .gguf file; without it, SmolLM2 where scripts/fetch_smollm2.sh
-- puts it. TESSERA_PIECES says on how many pieces of 256 tokens it is measured: 8 by default, 25 s of CPU time for each
-- plan. Its texts are TESSERA_TEXT and TESSERA_CALIBRATION_TEXT, or WikiText-2's test and validation text of the
-- measured data.

local core = require "tessera.core"
local data_sets = require "tessera.desk.data_sets"
local exists = require "tessera.files".exists
local grammar = require "tessera.models.grammar"
local host = require "tessera.host"
local lm = require "tessera.lm"
local measured = require "lib.measured"
local weights = require "tessera.weights"

local M = {}

local datasets = host.installation.datasets_dir

local function environment(name)
  local value = os.getenv(name)
  return value ~= "" and value or nil
end

--- The model that ships, and the real one.
M.small = "grammar-opt-5m"
M.real = (environment "TESSERA_WEIGHTS" or "smollm2-135m"):gsub("/+$", ""):match "[^/]+$"

--- What every experiment says of how layers are quantised: to the nearest code of a symmetric grid of 64 inputs, which
--- is not the grid that Q4_1 stores.
M.scheme = { method = "rtn", group_size = 64, symmetric = true }

local piece_tokens = 256

local function no_data(message) return nil, { code = "no_data", message = message } end

-- Texts of the grammar that training has not seen: their seeds are beyond those of the model's texts.lua.
local grammar_seeds = { evaluation = 1000000, calibration = 1100000 }

local function grammar_text(role)
  return function(num_tokens) return (grammar.text(grammar_seeds[role], num_tokens)) end -- a word is a token or more
end

-- Whole lines of a file from its start, more than `num_tokens`: of English, a token has 3 to 5 bytes on average.
local function file_text(path)
  return function(num_tokens)
    local text = core.read_file(path)
    return #text > 12 * num_tokens and text:sub(1, 12 * num_tokens):match "^(.*\n)" or text
  end
end

local function small()
  local path = datasets .. "/language_models/" .. M.small
  if not exists(path .. "/config.json") then return no_data("the model that ships is not at " .. path) end
  return {
    path = path, text = grammar_text "evaluation", calibration_text = grammar_text "calibration",
    text_source = ("tessera.models.grammar, seed %d"):format(grammar_seeds.evaluation),
  }
end

local function real()
  local path, why = environment "TESSERA_WEIGHTS", nil
  if not path then path, why = data_sets.path("models", "smollm2-135m/SmolLM2-135M-Instruct.Q4_1.gguf") end
  if not path or not exists(path) then
    return no_data((why and why.message or path .. " is not there")
      .. ": bash scripts/fetch_smollm2.sh, or TESSERA_WEIGHTS=MODEL")
  end
  local files = {}
  for role, names in pairs {
    evaluation = { "TESSERA_TEXT", "text/wikitext-2.test.txt" },
    calibration = { "TESSERA_CALIBRATION_TEXT", "text/wikitext-2.valid.txt" },
  } do
    local file = environment(names[1]) or measured.path(names[2])
    if not file or not exists(file) then
      return no_data(("no text: set %s to a file (WikiText-2's %s)"):format(names[1], names[2]:match "[^/]+$"))
    end
    files[role] = file
  end
  return {
    path = path, text = file_text(files.evaluation), calibration_text = file_text(files.calibration),
    text_source = files.evaluation:match "[^/]+$",
  }
end

local function num_real_pieces()
  local given = environment "TESSERA_PIECES"
  local count = given and tonumber(given) or 8
  if not count or count < 2 or count % 1 ~= 0 then
    core.raise("invalid_argument", ("TESSERA_PIECES is '%s'; give a whole number, at least 2"):format(given))
  end
  return count
end

--- The model of that name: path, num_layers, model, piece_tokens, num_pieces to measure on, num_calibration_pieces to
--- make statistics of, text(num_tokens) and calibration_text(num_tokens), at least so long, and text_source; or nil and
--- why, code "no_data".
function M.find(name, is_quick)
  local subject, missing = (name == M.small and small or real)()
  if not subject then return nil, missing end
  -- The module that runs models may not be built, and a sandbox does not load it.
  local ok, why = pcall(lm.tokenizer, subject.path)
  if not ok and (why.code == "unsupported" or why.code == "io" and tostring(why.where):find "%.so$") then
    return no_data(why.message)
  end
  subject.name, subject.model = name, weights.open(subject.path):model()
  subject.num_layers = subject.model.num_layers
  subject.piece_tokens, subject.num_calibration_pieces = piece_tokens, is_quick and 4 or 8
  subject.num_pieces = is_quick and 4 or name == M.small and 32 or num_real_pieces()
  return subject
end

--- A note on what is measured, for under a table.
M.note = ("models: %s ships (datasets/language_models), %s is TESSERA_WEIGHTS or what scripts/fetch_smollm2.sh gets; "
  .. "texts: the grammar of unseen seeds, and TESSERA_TEXT or WikiText-2's test text"):format(M.small, M.real)

return M
