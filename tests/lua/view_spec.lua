-- ts.view: a recorded run as the page of a server.
local core = require "tessera.core"
local support = require "support"
local ts = require "tessera"

local function served(changes)
  local deployment = ts.deployment { step_cost = { base_s = 2e-3, per_token_s = 2e-5 },
    engine = support.changed({ max_num_seqs = 6, kv_blocks = 60, max_model_len = 128, block_size = 8 }, changes) }
  return ts.serve(deployment, ts.traffic { num_requests = 16, rate_per_s = 200, prompt_tokens = 30, output_tokens = 24,
    prefix_groups = 2, prefix_tokens = 20, seed = 5 }, { record = true })
end

local function in_page(path)
  local page = core.read_file(path)
  os.remove(path)
  local json = page:match '<script id="recorded" type="application/json">(.-)</script>'
  return core.from_json(json), page
end

describe("ts.view", function()
  it("writes the run into the page, with blocks by name", function()
    local path, run = os.tmpname(), served()
    local replay = ts.view(run, path)
    assert.is_true(replay.identical)
    local recorded, page = in_page(path)
    assert.is_true(recorded.identical)
    assert.is_true(#recorded.views > 20 and #recorded.views <= 601)
    local shared, waiting, steps = 0, 0, 0
    for i, view in ipairs(recorded.views) do
      assert.is_true(i == 1 or view.time_s > recorded.views[i - 1].time_s)
      local held, count = {}, 0
      for _, request in ipairs(view.requests) do
        for k = 1, #request.blocks, 2 do
          for block = request.blocks[k], request.blocks[k] + request.blocks[k + 1] - 1 do
            if held[block] then shared = shared + 1 else count = count + 1 end
            held[block] = true
            assert.is_true(block >= 0 and block < 60)
          end
        end
        if request.state == "waiting" then waiting = waiting + 1 end
      end
      assert.equal(view.used_blocks, count)
      assert.equal(view.num_running + view.num_waiting, #view.requests)
      steps = steps + #view.steps
    end
    assert.equal(#run:steps(), steps)
    assert.is_true(shared > 0 and waiting > 0)
    assert.is_nil(page:find("http://", 1, true) or page:find("https://", 1, true))
  end)

  it("takes the file of a run, and its name", function()
    local log, path = os.tmpname(), os.tmpname()
    served():save_trace(log)
    ts.view(log, path)
    assert.equal(log:match "[^/]*$", in_page(path).name)
    os.remove(log)
  end)

  it("keeps the bound on views of a long run, and loses no step", function()
    local path, run = os.tmpname(), served { max_num_seqs = 1 }
    ts.view(run, path)
    local steps, recorded = 0, in_page(path)
    for _, view in ipairs(recorded.views) do steps = steps + #view.steps end
    assert.equal(#run:steps(), steps)
  end)

  it("refuses what ts.replay does", function()
    support.raises("not_found", "nowhere", function() ts.view("/nowhere/at.json", os.tmpname()) end)
  end)
end)
