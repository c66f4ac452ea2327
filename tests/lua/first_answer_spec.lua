-- What `tessera plan` says first: the deployment that `tessera capacity` finds, why, within 80 columns; or what would
-- serve.

local core = require "tessera.core"
local host = require "tessera.host"

local function widest(text)
  local most = 0
  for line in text:gmatch "[^\n]+" do
    most = math.max(most, select(2, line:gsub("[^\128-\191]", "")))
  end
  return most
end

-- At 80 columns; the error as it was before it was wrapped.
local function run(...)
  local status, text, err = host.run_program({ "env", "COLUMNS=80", host.program, ... }, "")
  assert.is_true(widest(err) <= 80, err)
  return status, text, (err:gsub("\n    +", " "))
end

describe("tessera plan without a batch", function()
  it("answers as tessera capacity does", function()
    for _, case in ipairs { { "llama-3.1-8b", "2xL4" }, { "qwen2.5-14b", "1xA100-40G+2xT4-16G" } } do
      local answers = {}
      for i, verb in ipairs { "plan", "capacity" } do
        local status, text, err = run(verb, "--model", case[1], "--cluster", case[2], "--json")
        assert.equal(0, status, err)
        answers[i] = core.from_json(text).options
      end
      assert.is_true(#answers[1] > 0)
      assert.same(answers[1], answers[2])
    end
  end)

  it("says what it assumed, what to start, why, and what others would give", function()
    local status, text, err = run("plan", "--model", "llama-3.1-8b", "--cluster", "1xA100-40G+2xT4-16G")
    assert.equal(0, status, err)
    assert.is_true(widest(text) <= 80, text)
    text = text:gsub("\n    +", " ") -- as it was before it was wrapped
    assert.matches("a stream of requests of 1000 prompt and 200 output", text)
    assert.matches("TTFT p99 at most 2.00 s", text)
    assert.matches("\n1 x A100%-40G %+ 1 x T4%-16G TP2 %(3 GPUs%): %d+%-bit weights", text)
    assert.matches("serves [%d.]+ req/s", text)
    assert.matches("mixing", text)
    assert.matches("\nOthers:\n", text)
  end)

  it("plans a batch where one is asked for, and says what the stream's answer is", function()
    local status, text, err = run("plan", "--model", "llama-3.1-8b", "--cluster", "1xA100-40G+1xT4-16G", "--batch-size",
      "8")
    assert.equal(0, status, err)
    assert.matches("an offline batch\n", text)
    assert.matches("perplexity at most 1 %% above 16 bits, by the middle guess", (text:gsub("\n +", " ")))
    assert.matches("Gain of mixing: ", text)
    assert.matches("best_homogeneous", text)
    assert.matches("As a stream", text)
    assert.is_true(widest(text) <= 80, text)
    local changes = text:match "With other devices, planned anew:\n(.-)\nPrices"
    for line in (changes .. "\n"):gsub("\n    +", " "):gmatch "[^\n]+" do
      assert.is_true(line:find " as fast" ~= nil or line:find "no faster" ~= nil or line:find "not fit" ~= nil, line)
    end
    assert.matches(", 0%.%d%d times as fast", changes)
    status, text, err = run("plan", "--model", "opt-125m", "--cluster", "1xL4", "--theta", "3", "--no-beside")
    assert.equal(0, status, err)
    assert.matches("since %-%-theta is", text)
  end)

  it("has servers of llama.cpp for a batch, of whose stream it says that nothing simulates it", function()
    local folder = os.tmpname()
    os.remove(folder)
    local status, text, err = run("plan", "--model", "llama-3.1-8b", "--cluster", "(2xRTX-4090)", "--launch",
      "llama.cpp", "--out", folder)
    os.execute("rm -rf " .. folder)
    assert.equal(0, status, err)
    assert.matches("As a stream: nothing here simulates", text)
    assert.matches("takes requests of up to %d+ tokens, ", text)
  end)

  it("has the bound that is in force as its default, and no price of quality", function()
    for _, verb in ipairs { "plan", "capacity" } do
      local help = select(2, run(verb, "--help")):gsub("%s+", " ")
      assert.matches("%-%-max%-perplexity%-increase [^%[]-default: 0.01 by the middle guess", help)
      assert.is_nil(help:match "%-%-theta %.%.%. [^%[]*%[[^%]]*%] %[1%]")
    end
  end)

  it("refuses what a flag says before anything is printed, by the flag's name", function()
    for _, case in ipairs {
      { { "--planner", "steepst" }, "^tessera: %-%-planner: unknown planner 'steepst'" },
      { { "--planner", "exact,steepst" }, "^tessera: %-%-planner: unknown planner 'steepst'" },
      { { "--usd-per-hour", "L4=-1" }, "^tessera: %-%-usd%-per%-hour L4=%-1: %-1 is out of range; give a number" },
      { { "--usd-per-hour", "L5=1" }, "^tessera: %-%-usd%-per%-hour L5=1: unknown device 'L5'" },
      { { "--objective", "foo" }, "'foo' is not a choice; give one of 'steady', 'paper'\n" },
    } do
      local status, text, err = run("plan", "--model", "llama-3.1-8b", "--cluster", "1xL4", unpack(case[1]))
      assert.is_true(status == 1 or status == 2)
      assert.equal("", text)
      assert.matches(case[2], err)
    end
  end)

  it("is not worse for a device of another vendor more", function()
    local function rate(cluster)
      local status, text, err = run("plan", "--model", "llama-3.1-8b", "--cluster", cluster, "--json")
      assert.equal(0, status, err)
      return core.from_json(text).options[1].rate_per_s
    end
    local both = rate "1xL4+1xMI300X"
    assert.is_true(both >= rate "1xMI300X" / 1.07) -- rates are known to 7 %
    assert.is_true(both >= rate "1xL4" / 1.07)
  end)

  it("says what would serve where nothing does", function()
    local status, text, err = run("plan", "--model", "llama-3.3-70b", "--cluster", "1xT4-16G")
    assert.equal(3, status, text)
    assert.matches("\n  memory: ", err)
    local _, lines = err:match("^(.-)\nWhat would serve:\n"):gsub("\n", "")
    assert.is_true(lines < 6, err)
    assert.matches("with 2 nodes of 8 x T4%-16G: [^\n]* req/s", err)
    status, _, err = run("plan", "--model", "llama-3.1-8b", "--cluster", "1xL4", "--ttft-p99", "0.05")
    assert.equal(3, status)
    assert.matches("\n  latency: ", err)
    assert.matches("with limits [%d.]+ times as long: ", err)
    local lengths = { "--model", "llama-3.1-8b", "--cluster", "2xA10G", "--prompt-tokens", "1500", "--output-tokens",
      "300" }
    status, _, err = run("plan", "--rate", "3", unpack(lengths))
    assert.equal(3, status)
    local smaller = tonumber(err:match "at a smaller rate: all devices, [^\n]*, ([%d.]+) req/s")
    local _, planned = run("plan", "--json", unpack(lengths))
    assert.near(core.from_json(planned).options[1].rate_per_s, smaller, 0.01) -- what a plan then says
    status, _, err = run("plan", "--model", "llama-3.3-70b", "--cluster", "2xRTX-4090", "--bitwidths", "16")
    assert.equal(3, status)
    assert.matches("with %-%-bitwidths 4: [^\n]* at 4 bits", err)
  end)
end)

describe("tessera plan of a batch", function()
  it("says how many requests fit where not all do", function()
    local function plan(batch_size)
      return run("plan", "--model", "llama-3.1-8b", "--cluster", "1xL4", "--no-beside", "--batch-size", batch_size)
    end
    local status, _, err = plan "600"
    assert.equal(3, status)
    local said = err:gsub("\n", " ")
    local fits, latency, batches = said:match "(%d+) requests fit: .- takes ([%d.]+ m?s), .* in (%d+) such"
    assert.equal(math.ceil(600 / fits), tonumber(batches))
    local _, text = plan(fits)
    assert.truthy(text:find("latency " .. latency, 1, true), text)
    assert.equal(3, (plan(tostring(2 * fits))))
    status, _, err = run("plan", "--model", "llama-3.3-70b", "--cluster", "1xT4-16G", "--batch-size", "8")
    assert.equal(3, status)
    assert.is_nil(err:find("requests fit", 1, true)) -- not one does
  end)
end)

describe("what a newcomer tries", function()
  it("finds a page for every file of pages", function()
    for _, name in ipairs(core.folder_files(host.installation.scripts_dir .. "/tessera/man")) do
      local status, _, err = run("man", (name:gsub("%.md$", "")))
      assert.equal(0, status, name .. ": " .. err)
    end
  end)

  it("is told which limit was not named", function()
    local _, text = run("plan", "--model", "llama-3.1-8b", "--cluster", "1xL4", "--ttft-p99", "1")
    assert.matches("no limit of TPOT %(%-%-tpot%-p99 0%.1 sets one%)", (text:gsub("\n *", " ")))
    for _, flags in ipairs { { "--e2e-p99", "20" }, { "--ttft-p99", "1", "--tpot-p99", "0.1" } } do
      _, text = run("plan", "--model", "llama-3.1-8b", "--cluster", "1xL4", unpack(flags))
      assert.is_nil(text:find("no limit", 1, true))
    end
  end)

  it("is named the flag that other tools call otherwise", function()
    local status, _, err = run("plan", "--model", "llama-3.1-8b", "--cluster", "4xL4", "--price", "L4=0.3")
    assert.is_true(status ~= 0)
    assert.matches("unknown option '%-%-price'; did you mean '%-%-usd%-per%-hour'%?", (err:gsub("\n *", " ")))
  end)

  it("launches in containers what containers can start", function()
    local folder = os.tmpname()
    os.remove(folder)
    local status, text, err = run("plan", "--model", "qwen2.5-7b", "--cluster", "4xL4", "--launch", "vllm", "--as",
      "ray", "--out", folder)
    host.run_program({ "rm", "-rf", folder }, "")
    assert.equal(0, status, err)
    assert.matches("ray%-serve%.yaml", text)
    assert.is_nil(text:find("prefill 2 x", 1, true))
  end)

  it("compares the saved plan of a stream with a server that decodes all requests at once", function()
    local path, bench = os.tmpname(), os.tmpname()
    local function rows(...)
      local status, _, err = run("plan", "--model", "llama-3.1-8b", "--cluster", ..., "--save", path)
      assert.equal(0, status, err)
      core.write_file(bench, core.to_json { backend = "vllm", model_id = "meta-llama/Llama-3.1-8B", num_prompts = 16,
        request_rate = "inf", max_concurrency = 16, duration = 3, completed = 16, total_input_tokens = 16000,
        total_output_tokens = 3200, request_throughput = 5, output_throughput = 1000, total_token_throughput = 1,
        mean_ttft_ms = 300, std_ttft_ms = 1, mean_tpot_ms = 15, std_tpot_ms = 0.1 })
      local text
      status, text, err = run("compare", path, bench, "--no-replan", "--json")
      assert.equal(0, status, err)
      local result = core.from_json(text)
      for _, remark in ipairs(result.remarks) do assert.is_nil(remark:find("has left", 1, true), remark) end
      for _, row in ipairs(result.rows) do
        if row.metric == "tpot_s" then return row.predicted end
      end
    end
    local one, two = rows "1xA100-80G", rows "2xA100-80G"
    os.remove(path)
    os.remove(bench)
    assert.is_true(one > 0.01 and one < 0.02, tostring(one)) -- not 16 steps for a token, which were 0.19 s
    assert.is_true(two < one)
  end)
end)

describe("what an expert would not sign", function()
  local function answered(...)
    local status, text, err = run("plan", ...)
    assert.equal(0, status, err)
    assert.is_true(widest(text) <= 80, text)
    return (text:gsub("\n    +", " "))
  end

  it("is fewer than a request at a time at bits that just fit", function()
    local text = answered("--model", "llama-3.3-70b", "--cluster", "2xA100-40G+4xT4")
    assert.matches("\n1 x A100%-40G TP2 %(2 GPUs%): 4%-bit weights", text)
    assert.matches("at 8 bits would serve 0%.00%d+ req/s, less than a request at a time: fewer bits", text)
    text = answered("--model", "llama-3.3-70b", "--cluster", "4xL4", "--no-beside")
    assert.matches("less than a request at a time on the engine", text)
    assert.matches("one request alone takes most of the limits: with limits [%d.]+ times as long: .- req/s", text)
  end)

  it("is a percentage of five digits, or a gain without its bits", function()
    local words = require("tessera.solver").gain_words
    assert.same({ "as many", "12 % more", "38 % less", "2.5 % more", "252 times as many", "99.6 % less" },
      { words(1.003), words(1.12), words(0.62), words(1.025), words(252.3), words(0.0039) })
    local text = answered("--model", "llama-3.1-8b", "--cluster", "2xA6000")
    assert.matches("2 x A6000 at 8 bits would serve [%d.]+ req/s, [%d.]+ %% more: not worth fewer bits", text)
  end)

  it("is a request that the model does not take", function()
    local status, _, err = run("plan", "--model", "llama-3.1-8b", "--cluster", "1xL4", "--prompt-tokens", "200000")
    assert.equal(1, status)
    assert.matches("200000 prompt and 200 output tokens are more than the 131072 that llama%-3.1%-8b takes", err)
  end)

  it("is a model whose context is shorter than usual requests", function()
    local folder = host.installation.datasets_dir .. "/language_models/grammar-opt-5m"
    local text = answered("--model", folder, "--cluster", "2xT4")
    assert.matches("requests of 192 prompt and 38 output tokens", (text:gsub("%s+", " ")))
    local status, _, err = run("plan", "--model", folder, "--cluster", "2xT4", "--prompt-tokens", "240")
    assert.equal(1, status)
    assert.matches("240 prompt and 38 output tokens are more than the 256 .- takes; shorten them", err)
    local batch = answered("--model", folder, "--cluster", "2xT4", "--batch-size", "8")
    assert.matches("prompt tokens 192, output tokens 37", (batch:gsub("%s+", " ")))
  end)

  it("is more cores than a CPU has, a Mac on a node of 32, or launch files for either", function()
    local path = os.tmpname() .. ".json"
    core.write_file(path, core.to_json { name = "cpu", nodes = { { name = "here", devices = { { {
      name = "Some-CPU-1c", backend = "cpu", memory_bytes = 2 ^ 33, memory_bytes_per_s = 1e10, pcie_bytes_per_s = 1e9,
      flop_per_s = { fp32 = 9e10, fp16 = 9e10, int8 = 1e11, int4 = 1e11 },
    }, 2 } } } } })
    local text = answered("--model", "smollm2-135m", "--cluster", path, "--prompt-tokens", "64", "--output-tokens",
      "16")
    assert.matches("%(2 devices%)", text)
    assert.matches("%-%-save PLAN and `tessera execute PLAN` run it here", text)
    local status, _, err = run("plan", "--model", "smollm2-135m", "--cluster", path)
    assert.equal(3, status)
    assert.matches("one request at a time: [%d.]+ tok/s .-`tessera execute PLAN`", err)
    assert.is_nil(err:find("nodes of", 1, true))
    text = answered("--model", "smollm2-135m", "--cluster", path, "--batch-size", "2", "--no-beside")
    assert.is_nil(text:find("launch files", 1, true))
    local cases = { { "llama-3.3-70b", "M3 Ultra", "latency" }, { "phi-3.5-mini", "GTX 1080 Ti", "kernels" } }
    for _, case in ipairs(cases) do
      status, _, err = run("plan", "--model", case[1], "--cluster", case[2])
      assert.equal(3, status)
      assert.matches("\n  " .. case[3] .. ": ", err)
      assert.is_nil(err:find(" on one node", 1, true))
      assert.matches("`tessera plan%s+%-%-batch%-size 1 %-%-launch llama.cpp`", err)
    end
  end)

  it("is a file that holds what was printed for people", function()
    local path = os.tmpname()
    core.write_file(path, "cluster 2xL4: 2xL4, 1 node\n")
    local status, _, err = run("plan", "--model", "llama-3.1-8b", "--cluster", path)
    assert.equal(1, status)
    assert.matches("holds no cluster; `tessera detect %-%-out FILE.json` writes one", err)
  end)

  it("says where prices were read, and that those of two sellers do not compare", function()
    local taken = require "tessera.cli.taken"
    local ts = require "tessera"
    local function prices(...) return taken.prices(ts.cluster(...)) end
    local warning = "Sellers ask unlike prices for one GPU: give yours before you choose by money."
    assert.is_nil(prices("4xL4+1xT4-16G"):find(warning, 1, true))
    local both = prices "1xRTX-4090+1xL4"
    assert.is_truthy(both:find("RTX-4090 0.69 USD/h (RunPod secure cloud, 2025)", 1, true), both)
    assert.is_truthy(both:find(warning, 1, true), both)
  end)
end)
