-- plan:save and ts.load_plan: exact round trips, and files that are not what they should be.
local core = require "tessera.core"
local ts = require "tessera"
local support = require "support"
local raises = support.raises

local function saved(plan)
  local path = support.temporary()
  plan:save(path)
  return path
end

describe("a saved plan", function()
  after_each(support.remove_files)

  it("comes back exactly", function()
    for _, plan in ipairs {
      support.small_plan(),
      assert(ts.plan(support.small_problem { quality = { at_least = "uniform" }, theta = 1 / 3 },
        { planner = "het", prefill_micro_batch_size = 4, decode_micro_batch_size = 4 })),
      assert(ts.plan(support.small_problem { workload = { prompt_tokens = 100.1, chunk_tokens = 33, output_tokens = 7.7,
        batch_size = 3 }, memory = "llm-pq", kv_bitwidth = 8 }, { planner = "uniform" })),
    } do
      local path = saved(plan)
      local again = ts.load_plan(path)
      assert.same(plan:to_table(), again:to_table())
      assert.is_true(plan == again)
      assert.is_true(ts.check(again))
      assert.equal(support.read(path), support.read(saved(again)))
      assert.same(ts.simulate(plan):to_table(), ts.simulate(again):to_table())
      assert.same(plan:problem():to_table(), again:problem():to_table())
    end
  end)

  it("shows its pipelines alike, with replicas or without, and loads without them", function()
    local one = support.small_plan()
    local many = assert(ts.plan(ts.problem(support.settled {
      model = "opt-125m", cluster = "4xT4-16G", theta = 1, workload = { prompt_tokens = 32, output_tokens = 8,
        batch_size = 8 } }), { replicas = 2 }))
    for _, plan in ipairs { one, many } do
      local path = saved(plan)
      local text = support.read(path)
      local json = core.from_json(text)
      assert.same(plan.pipelines, json.pipelines)
      local parts, used, requests = plan.replicas or { plan }, {}, 0
      assert.equal(#parts, #plan.pipelines)
      for i, pipeline in ipairs(plan.pipelines) do
        requests = requests + pipeline.batch_size
        assert.same(parts[i].device_order, pipeline.device_order)
        for k, stage in ipairs(pipeline.stages) do
          assert.same(parts[i].stages[k].bitwidths, stage.bitwidths)
          assert.equal(parts[i].stages[k].decode_s, stage.decode_s)
          assert.is_nil(used[stage.device_index], "a device twice")
          used[stage.device_index] = true
        end
      end
      assert.equal(plan:problem().workload.batch_size, requests)
      json.pipelines = nil
      assert.equal(plan, ts.load_plan(support.temporary(core.to_json(json))))
    end
  end)

  it("replaces a file as a whole, keeps its mode, and follows links", function()
    local path = support.temporary "old"
    os.execute(("chmod 600 %s && ln -s %s %s.link"):format(path, path, path))
    support.small_plan():save(path .. ".link")
    local list = io.popen(("stat -c %%a %s; readlink %s.link; ls %s.*"):format(path, path, path))
    assert.equal(("600\n%s\n%s.link\n"):format(path, path), list:read "*a")
    list:close()
    assert.equal(support.small_plan(), ts.load_plan(path))
    os.remove(path .. ".link")
  end)

  it("is not written where that is impossible", function()
    local plan = support.small_plan()
    raises("not_found", "No such file", function() plan:save "/no/such/folder/plan.json" end)
    raises("not_found", "No such file", function() plan:save "" end)
    raises("io", "Is a directory", function() plan:save "/tmp" end)
    raises("io", "Not a directory", function() plan:save "/dev/null/plan.json" end)
    raises("io", "No space left", function() plan:save "/dev/full" end)
    raises("invalid_argument", "NUL", function() plan:save "/tmp/a\0b" end)
    raises("invalid_argument", "plan:save path", function() plan:save() end)
    raises("invalid_argument", "plan:save path", function() plan:save(3) end)
    assert.has_no.errors(function() plan:save "/dev/null" end)
  end)

  it("is refused when it is no plan", function()
    for content, text in pairs {
      [""] = "empty, JSON expected", ["{"] = "not valid JSON", ["{}"] = "'format' is missing",
      ["[1]"] = "an array where an object belongs", ["null"] = "null where an object belongs",
      ['{"format": "other"}'] = "not a Tessera plan", ['{"format": 3}'] = "an integer where a string belongs",
      ['{"format": "tessera-plan", "version": 99}'] = "this program reads version 1",
      ['{"format": "tessera-plan", "format": "tessera-plan"}'] = "appears twice",
      ['{"format": "tessera-plan\255"}'] = "not valid JSON", [("[\n"):rep(1e5)] = "nested deeper than 64",
    } do
      local path = support.temporary(content)
      local ok, err = pcall(ts.load_plan, path)
      assert.is_false(ok, content:sub(1, 40))
      assert.truthy(err.message:find(path, 1, true) and err.message:find(text, 1, true), err.message)
      assert.not_matches("\n", err.message)
    end
    raises("not_found", "No such file", function() return ts.load_plan "/no/such/plan.json" end)
    raises("invalid_argument", "ts.load_plan path", function() return ts.load_plan() end)
    raises("invalid_argument", "NUL", function() return ts.load_plan "/tmp\0" end)
  end)

  it("is refused where a stage fills a device without memory", function()
    local content = support.read(saved(support.small_plan()))
    for _, capacity in ipairs { "0", "-0.0", "1e-300" } do
      local changed = content:gsub('("capacity_bytes": )[%d.e+]+', "%1" .. capacity)
      raises("invalid_argument", "capacity_bytes: a device without memory holds no stage",
        function() return ts.load_plan(support.temporary(changed)) end)
    end
  end)

  it("is refused where percentages of its numbers would be infinite", function()
    local content = support.read(saved(support.small_plan()))
    local changed, count = content:gsub('"error": null', '"error": 1e308')
    assert.equal(1, count)
    raises("out_of_range", "error", function() return ts.load_plan(support.temporary(changed)) end)
  end)

  it("is refused or checked wherever it was cut or changed", function()
    local content = support.read(saved(support.small_plan()))
    for length = 0, #content - 2, math.ceil(#content / 97) do
      local ok, err = pcall(ts.load_plan, support.temporary(content:sub(1, length)))
      assert.is_false(ok)
      assert.is_string(err.message)
    end
    local seed = 20240607
    for i = 1, 300 do -- every number in turn becomes something hostile; a linear congruential choice
      seed = (seed * 1103515245 + 12345) % 2 ^ 31
      local hostile = ({ "-1", "1e308", "0", "null", "3.5", "\"x\"", "[]", "{}", "1e400", "true" })[seed % 10 + 1]
      local position = math.floor(seed / 16) % #content
      local first, last = content:find(": [%d.e+-]+", position)
      if first then
        local path = support.temporary(content:sub(1, first + 1) .. hostile .. content:sub(last + 1))
        local ok, plan = pcall(ts.load_plan, path)
        if ok then
          local checked, result, why = pcall(ts.check, plan)
          if checked and not result then assert.is_string(why.message) end
          pcall(ts.simulate, plan)
          pcall(plan.explain, plan, { what_if = false })
          pcall(tostring, plan)
        else
          assert.is_string(plan.message, ("seed %d, step %d"):format(20240607, i))
        end
        os.remove(path)
      end
    end
  end)
end)
