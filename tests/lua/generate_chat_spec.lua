-- `tessera generate --chat`: a prompt in a model's template.
local host = require "tessera.host"
local lm = require "tessera.lm"
local support = require "support"

local model = host.installation.datasets_dir .. "/language_models/grammar-opt-5m"
local template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
  .. "{% if add_generation_prompt %}[assistant]{% endif %}"
local messages = [=[[{"role":"system","content":"Be brief."},{"role":"user","content":"Why <b>?"}]]=]

-- A folder with a template beside it, as published models have.
local function folder()
  local path = support.temporary()
  os.remove(path)
  host.make_folder(path)
  local file = assert(io.open(path .. "/chat_template.jinja", "w"))
  file:write(template)
  file:close()
  return path
end

describe("a chat", function()
  after_each(support.remove_files)

  it("is written by the model's own template, or by a file", function()
    local expected = "[system] Be brief.\n[user] Why <b>?\n[assistant]"
    assert.equal(expected, lm.chat_prompt(folder(), messages))
    assert.equal(expected, lm.chat_prompt(model, messages, folder() .. "/chat_template.jinja"))
  end)

  it("is refused without a template, and by what is wrong with it", function()
    support.raises("not_found", "there is no chat template with the model in", function()
      lm.chat_prompt(model, messages)
    end)
    support.raises("invalid_argument", "messages", function() lm.chat_prompt(folder(), '[{"role":1}]') end)
  end)

  it("belongs to tessera generate", function()
    local function tessera(...)
      local status, out, err = host.run_program({ host.program, "generate", model, "the cat", ... }, "")
      return status, out .. err
    end
    local status, text = tessera("--system", "x")
    assert.same({ 2, true }, { status, text:find("--system: it belongs to --chat", 1, true) ~= nil })
    status, text = tessera("--chat")
    if text:find("quickstart.sh", 1, true) then return pending(text) end -- this build runs no models
    assert.equal(1, status)
    assert.matches("give one with %-%-chat%-template", text)
    status, text = tessera("--chat", "--chat-template", folder() .. "/chat_template.jinja", "--max-tokens", "2")
    assert.equal(0, status)
    local _, plain = tessera("--max-tokens", "2")
    local function tokens(of) return tonumber(of:match "(%d+) tokens of prompt") end
    assert.is_true(tokens(text) > tokens(plain)) -- the template's own words
  end)
end)
