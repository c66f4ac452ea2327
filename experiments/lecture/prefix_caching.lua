-- Prefix caching: blocks of prompts that begin alike are computed once, found by their hash, and shared.
--
-- Five parts. `again`: the same prompt twice, 100 s apart: what the second one finds. Whole blocks of 16, and never the
-- last token: 48 of 64 tokens, 64 of 65, 32 of 64 where EAGLE wants the hidden state before. `samples`: two answers to
-- one prompt of 100 tokens, with what their blocks come to. `groups`: 3,000 prompts of 2,048 shared and 256 own tokens
-- on an H100, by how many different prefixes there are, drawn alike or by Zipf's law; the ideal is that only the first
-- of each misses. `cyclic`: the same in strict turn, where LRU throws each prefix away just before it comes again.
-- `router`: four engines, 256 prefixes, or two of them; `sticky` is prefix_aware without its rule for unequal loads.
--
-- On writing into a shared block the lecture copies it (vLLM V0 did). V1 shares full blocks alone and computes the
-- rest again: two samples hold 6 shared blocks and one each, 8, where a copy would make 7 and then 8.
--
-- Bounds: exact where a count is (all hits of `groups` with up to 64 prefixes), and what no cache can beat: of
-- prefixes drawn alike it hits at most with the share of them that it holds. That of `sticky` was written after the
-- first run, which overloads two engines.
local core = require "tessera.core"
local ts = require "tessera"
local chat = require "lecture.parts.chat"

local prefix_tokens, own_tokens, num_requests = 2048, 256, 3000

local points = {}
local function add(part, name, groups, caching)
  points[#points + 1] = { part = part, name = name, groups = groups, caching = caching }
end
for _, name in ipairs { "15 tokens", "64 tokens", "65 tokens", "64 tokens, eagle" } do add("again", name, 1, true) end
for _, caching in ipairs { true, false } do add("samples", "100 tokens", 1, caching) end
for _, groups in ipairs { 4, 64, 256, 512 } do
  for _, name in ipairs { "alike", "zipf" } do add("groups", name, groups, true) end
end
add("groups", "alike", 64, false)
add("groups", "none shared", 1, true)
add("groups", "none shared", 1, false)
for _, groups in ipairs { 128, 256 } do add("cyclic", "in turn", groups, true) end
for _, name in ipairs { "round_robin", "prefix_aware" } do add("router", name, 256, true) end
for _, name in ipairs { "round_robin", "sticky" } do add("router", name, 2, true) end

local function unit_deployment(options)
  options.scheduler, options.max_num_batched_tokens, options.kv_blocks = "vllm_v1", 1024, 64
  return ts.deployment { engine = ts.engine(options), step_cost = { base_s = 1 } }
end

local function write(path, rows)
  local lines = {}
  lines[#lines + 1] = "arrival_s,prompt_tokens,output_tokens,prefix_group,prefix_tokens\n"
  for _, row in ipairs(rows) do lines[#lines + 1] = ("%.3f,%d,%d,%d,%d\n"):format(unpack(row)) end
  core.write_file(path, table.concat(lines))
  return path
end

local function again(point, context)
  local tokens = tonumber(point.name:match "^%d+")
  local rows = { { 0, tokens, 2, 0, tokens }, { 100, tokens, 2, 0, tokens } }
  local trace = write(("%s/%d.csv"):format(context.output_dir, tokens), rows)
  local drafts = point.name:find "eagle" and { method = "eagle", num_tokens = 2, acceptance = 0.5 } or nil
  local served = ts.serve(unit_deployment { speculative = drafts }, ts.traffic { trace = trace })
  return { cached_tokens = served:requests()[2].cached_tokens }
end

local function samples(point)
  local deployment = unit_deployment { enable_prefix_caching = point.caching }
  local traffic = ts.traffic { rate_per_s = 1, num_requests = 2, n = 2, prompt_tokens = 100, output_tokens = 20 }
  return { blocks = 64 - ts.serve(deployment, traffic, { record = true }):steps()[1].free_blocks }
end

local function in_turn(groups, folder_)
  local rows = {}
  for i = 1, num_requests do
    rows[i] = { i / 10, prefix_tokens + own_tokens, 128, (i - 1) % groups, prefix_tokens }
  end
  return ts.traffic { trace = write(folder_ .. "/cyclic.csv", rows) }
end

local function drawn(point, rate_per_s, count)
  local options = {
    rate_per_s = rate_per_s, num_requests = count, prompt_tokens = own_tokens, output_tokens = 128, seed = 1,
  }
  if point.name == "none shared" then
    options.prompt_tokens = prefix_tokens + own_tokens
  else
    options.prefix_groups, options.prefix_tokens = point.groups, prefix_tokens
    options.prefix_zipf = point.name == "zipf" and 1 or 0
  end
  return ts.traffic(options)
end

local function row_of(served, deployment)
  return {
    hit_ratio = served.prefix_hit_ratio, ttft_mean_s = served.ttft_s.mean, ttft_p99_s = served.ttft_s.p99,
    tpot_mean_s = served.tpot_s.mean, goodput_request_per_s = served.goodput_request_per_s,
    kv_blocks = deployment.replicas[1].kv_blocks,
  }
end

local function on_gpu(point, context)
  local deployment = chat.deployment { enable_prefix_caching = point.caching }
  local traffic = point.part == "cyclic" and in_turn(point.groups, context.output_dir) or drawn(point, 10, num_requests)
  local row = row_of(ts.serve(deployment, traffic, { slo = chat.slo, record = false }), deployment)
  row.ideal_hit_ratio = (num_requests - point.groups) / num_requests * prefix_tokens / (prefix_tokens + own_tokens)
  return row
end

local function routed(point)
  local router = point.name == "sticky" and { name = "prefix_aware", most_difference = 1e9 } or point.name
  local deployment = chat.deployment({ enable_prefix_caching = true }, {
    cluster = "4xH100-80G", replicas = 4, router = router,
  })
  return row_of(ts.serve(deployment, drawn(point, 100, num_requests), { slo = chat.slo, record = false }), deployment)
end

return ts.experiment {
  name = "lecture/prefix_caching",
  doc = "What shared prefixes save: hits against the ideal, LRU's cliff, routers, and blocks of parallel samples",
  grid = points,
  columns = {
    "cached_tokens", "blocks", "hit_ratio", "ideal_hit_ratio", "ttft_mean_s", "ttft_p99_s", "tpot_mean_s",
    "goodput_request_per_s",
  },
  notes = {
    "hit_ratio: tokens found among tokens looked up; 10 req/s on one engine, 100 on four",
    "a prefix of 2,048 tokens takes 128 blocks; the engine has 28,144: 219 prefixes, less what running requests hold",
    "what hashing and looking up cost the host is not in the model",
  },

  run = function(point, context)
    if point.part == "again" then return again(point, context) end
    if point.part == "samples" then return samples(point) end
    return point.part == "router" and routed(point) or on_gpu(point, context)
  end,

  check = function(t)
    local found = { { "15 tokens", 0 }, { "64 tokens", 48 }, { "65 tokens", 64 }, { "64 tokens, eagle", 32 } }
    for _, wanted in ipairs(found) do
      t:expect_all { column = "cached_tokens", equals = wanted[2], where = { part = "again", name = wanted[1] } }
    end
    t:expect_all { column = "blocks", equals = 8, where = { part = "samples", caching = true } }
    t:expect_all { column = "blocks", equals = 14, where = { part = "samples", caching = false } }
    t:expect_that {
      text = "with 4 and 64 prefixes drawn alike just the first of each misses",
      where = { part = "groups", name = "alike", groups = { 4, 64 }, caching = true },
      holds = function(_, rows)
        for _, row in ipairs(rows) do
          if math.abs(row.hit_ratio - row.ideal_hit_ratio) > 1e-9 then
            return false, ("%.6f of %.6f"):format(row.hit_ratio, row.ideal_hit_ratio)
          end
        end
        return true
      end,
    }
    -- Running requests hold some 5 % of the blocks, and what they leave behind passes through the cache as well.
    for _, groups in ipairs { 256, 512 } do
      t:expect_that {
        text = ("of %d prefixes drawn alike it hits with 0.6 to 1 of the share that fits"):format(groups),
        where = { part = "groups", name = "alike", groups = groups },
        holds = function(_, rows)
          local share = rows[1].kv_blocks * 16 / (groups * prefix_tokens)
          local part = rows[1].hit_ratio / (share * prefix_tokens / (prefix_tokens + own_tokens))
          return part >= 0.6 and part <= 1, ("%.2f"):format(part)
        end,
      }
    end
    t:expect_that {
      text = "by Zipf's law 512 prefixes hit 1.5 to 3 times as often as alike, less than ideal",
      where = { part = "groups", groups = 512 },
      holds = function(at)
        local zipf, alike = at { name = "zipf" }, at { name = "alike" }
        local ratio = zipf.hit_ratio / alike.hit_ratio
        return ratio >= 1.5 and ratio <= 3 and zipf.hit_ratio < zipf.ideal_hit_ratio, ("%.2f"):format(ratio)
      end,
    }
    t:expect_that { -- 2,304 tokens take 51 ms here, 256 take 10
      text = "with 64 prefixes the first token comes 3 to 10 times sooner than without the cache",
      where = { part = "groups", name = "alike", groups = 64 },
      holds = function(at)
        local ratio = at { caching = false }.ttft_mean_s / at { caching = true }.ttft_mean_s
        return ratio >= 3 and ratio <= 10, ("%.1f"):format(ratio)
      end,
    }
    t:expect_that { -- when it does not help
      text = "where nobody shares it finds nothing and changes nothing",
      where = { part = "groups", name = "none shared" },
      holds = function(at)
        local on, off = at { caching = true }, at { caching = false }
        return on.hit_ratio == 0 and on.ttft_mean_s == off.ttft_mean_s and on.tpot_mean_s == off.tpot_mean_s
      end,
    }
    t:expect_that { -- 128 prefixes fit, 256 do not
      text = "in turn, 128 prefixes hit as if the cache were endless, and 256 never",
      where = { part = "cyclic" },
      holds = function(at)
        local few, many = at { groups = 128 }, at { groups = 256 }
        return math.abs(few.hit_ratio - few.ideal_hit_ratio) < 1e-9 and many.hit_ratio == 0,
          ("%.3f of %.3f, and %.3f"):format(few.hit_ratio, few.ideal_hit_ratio, many.hit_ratio)
      end,
    }
    t:expect_that { -- each of four engines holds a fourth of the prefixes, or tries to hold all
      text = "a router that knows prefixes hits 1.3 to 2 times as often as turns, and TTFT is 5 to 40 times shorter",
      where = { part = "router", groups = 256 },
      holds = function(at)
        local turns, aware = at { name = "round_robin" }, at { name = "prefix_aware" }
        local hits, ttft = aware.hit_ratio / turns.hit_ratio, turns.ttft_mean_s / aware.ttft_mean_s
        return hits >= 1.3 and hits <= 2 and ttft >= 5 and ttft <= 40, ("%.2f and %.1f"):format(hits, ttft)
      end,
    }
    t:expect_that { -- when it hurts: two of four engines are idle, the others overloaded
      text = "two prefixes on four engines: a router that only follows them keeps 0.05 to 0.5 of the goodput",
      where = { part = "router", groups = 2 },
      holds = function(at)
        local turns, sticky = at { name = "round_robin" }, at { name = "sticky" }
        local ratio = sticky.goodput_request_per_s / turns.goodput_request_per_s
        return sticky.hit_ratio >= turns.hit_ratio and ratio >= 0.05 and ratio <= 0.5, ("%.2f"):format(ratio)
      end,
    }
  end,
  plots = { {
    kind = "lines", x = "groups", y = "hit_ratio", by = "name", where = { part = "groups", caching = true },
  } },
}
