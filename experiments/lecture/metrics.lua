-- What a server's numbers mean: TTFT, TPOT, goodput, and how throughput alone can be made to look good.
--
-- A small server, written out here in Lua so that every number can be followed: a step takes 10 ms, 0.25 ms for each
-- request that decodes and 0.05 ms for each prompt token (a GPU's order of magnitude for an 8B model). A benchmark
-- keeps every seat busy: as many clients as seats, each of which sends its next request when its last one has ended;
-- 3,000 requests of 512 prompt and 50 to 150 output tokens in all. `continuous` lets requests in whenever a seat is
-- free, `static` takes a batch and runs it to its end. The SLO is the lecture's: TTFT < 500 ms and TPOT < 50 ms.
--
-- Bounds were chosen from the server's own step. A request costs 25.6 ms for its prompt and 100 shares of a step, so
-- 64 seats take 15.1 requests per second and 256 take 18.3; by Little's law that is a token every 42 and every 140
-- ms. In a static batch whoever ends early waits for the longest, some 49 steps.
local ts = require "tessera"

local base_s, per_request_s, per_prompt_token_s = 0.010, 0.00025, 0.00005
local prompt_tokens, mean_output_tokens, num_requests = 512, 100, 3000
local ttft_limit_s, tpot_limit_s = 0.5, 0.05
local price_usd_per_h = ts.device("H100-80G").price_usd_per_h

-- Requests per second that so many seats can take.
local function capacity(seats)
  return 1 / (prompt_tokens * per_prompt_token_s + mean_output_tokens * (base_s / seats + per_request_s))
end

-- Output tokens, 50 to 150: by a generator of our own (Park and Miller, 1988), the same on every machine.
local function lengths()
  local state, list = 7, {}
  for i = 1, num_requests do
    state = state * 16807 % 2147483647
    list[i] = 50 + state % 101
  end
  return list
end

-- Clients begin one after the other, over the time of a request, and go on when their request has ended.
local function clients(seats)
  local waiting, latency_s = {}, seats / capacity(seats)
  for i = 1, seats do waiting[i] = (i - 1) / seats * latency_s end
  return waiting
end

local function send(waiting, first, now)
  local at = #waiting + 1
  while at > first and waiting[at - 1] > now do
    waiting[at] = waiting[at - 1]
    at = at - 1
  end
  waiting[at] = now
end

-- The log: arrival, first and last token of each request, and the end.
local function served(policy, seats)
  local waiting, output, running, log, first, now = clients(seats), lengths(), {}, {}, 1, 0
  while #log < num_requests or #running > 0 do
    if #running == 0 then now = math.max(now, waiting[first]) end
    local joined, may_join = 0, policy == "continuous" or #running == 0
    while may_join and #log < num_requests and #running < seats and waiting[first] and waiting[first] <= now do
      log[#log + 1] = { arrival_s = waiting[first], output_tokens = output[#log + 1] }
      running[#running + 1] = { log = log[#log], left = output[#log] }
      first, joined = first + 1, joined + 1
    end
    now = now + base_s + per_request_s * (#running - joined) + per_prompt_token_s * prompt_tokens * joined
    local stays = {}
    for _, request in ipairs(running) do
      request.log.first_s = request.log.first_s or now
      request.left = request.left - 1
      if request.left > 0 then
        stays[#stays + 1] = request
      else
        request.log.last_s = now
        send(waiting, first, now)
      end
    end
    running = stays
  end
  return log, now
end

local function quantile(list, q)
  table.sort(list)
  local at = (#list - 1) * q + 1
  local low = math.floor(at)
  return list[low] + (at - low) * ((list[low + 1] or list[low]) - list[low])
end

-- The definitions.
local function metrics(log, end_s)
  local ttft, tpot, good, good_tokens, tokens, off, lecture_off = {}, {}, 0, 0, 0, 0, 0
  for i, request in ipairs(log) do
    local e2e_s, output = request.last_s - request.arrival_s, request.output_tokens
    ttft[i] = request.first_s - request.arrival_s
    tpot[i] = (e2e_s - ttft[i]) / (output - 1)
    tokens = tokens + output
    if ttft[i] < ttft_limit_s and tpot[i] < tpot_limit_s then good, good_tokens = good + 1, good_tokens + output end
    off = math.max(off, math.abs(ttft[i] + tpot[i] * (output - 1) - e2e_s))
    lecture_off = math.max(lecture_off, math.abs((ttft[i] + tpot[i] * output - e2e_s) / tpot[i] - 1))
  end
  local usd = 1e6 * price_usd_per_h / 3600
  return {
    throughput_tok_s = tokens / end_s, request_per_s = num_requests / end_s, goodput_request_per_s = good / end_s,
    attainment_ratio = good / num_requests, ttft_p50_s = quantile(ttft, 0.5), ttft_p99_s = quantile(ttft, 0.99),
    tpot_p50_s = quantile(tpot, 0.5), usd_per_million_tokens = usd / (tokens / end_s),
    usd_per_million_good_tokens = good > 0 and usd / (good_tokens / end_s) or nil,
    e2e_off_s = off, lecture_e2e_off_tpot = lecture_off,
  }
end

return ts.experiment {
  name = "lecture/metrics",
  doc = "Throughput and goodput of a server by its seats, continuous and static",
  grid = { policy = { "continuous", "static" }, seats = { 4, 16, 64, 256 } },
  columns = {
    "throughput_tok_s", "goodput_request_per_s", "request_per_s", "attainment_ratio", "ttft_p50_s", "ttft_p99_s",
    "tpot_p50_s", "usd_per_million_tokens", "usd_per_million_good_tokens",
  },
  notes = {
    "a synthetic log, computed in this script; no model and no GPU is behind it",
    ("dollars: %.2f USD/h, the H100's price in its file here, per 1e6 output tokens; good: of requests within the "
      .. "SLO"):format(price_usd_per_h),
    "a closed loop: clients that wait for their answers cannot overload a server, so TTFT stays short with any seats",
  },

  run = function(point)
    local row = metrics(served(point.policy, point.seats))
    row.capacity_request_per_s = capacity(point.seats)
    return row
  end,

  check = function(t)
    t:expect_order { -- "batch up, throughput up"
      column = "throughput_tok_s", by = "seats", order = { 256, 64, 16, 4 }, highest = true,
      where = { policy = "continuous" },
    }
    t:expect_best { column = "goodput_request_per_s", is = { seats = 64 }, highest = true,
      where = { policy = "continuous" } }
    t:expect_that {
      text = "256 seats: 1.1 to 1.5 times the tokens of 64, for 0 to 0.2 of the goodput",
      where = { policy = "continuous", seats = { 64, 256 } },
      holds = function(at)
        local many, some = at { seats = 256 }, at { seats = 64 }
        local tokens = many.throughput_tok_s / some.throughput_tok_s
        local good = many.goodput_request_per_s / some.goodput_request_per_s
        return tokens >= 1.1 and tokens <= 1.5 and good >= 0 and good <= 0.2, ("%.2f and %.2f"):format(tokens, good)
      end,
    }
    t:expect_all { column = "attainment_ratio", at_least = 0.8, at_most = 1,
      where = { policy = "continuous", seats = { 4, 16, 64 } } }
    t:expect_close { column = "request_per_s", to = "capacity_request_per_s", rel = 0.1,
      where = { policy = "continuous" } }
    t:expect_that { -- Little's law: a token every seats / (requests per second x 100)
      text = "TPOT is 42 ms with 64 seats and 140 ms with 256, to 15 %",
      where = { policy = "continuous", seats = { 64, 256 } },
      holds = function(at)
        local some, many = at { seats = 64 }.tpot_p50_s, at { seats = 256 }.tpot_p50_s
        return math.abs(some / 0.042 - 1) <= 0.15 and math.abs(many / 0.140 - 1) <= 0.15,
          ("%.4f and %.4f s"):format(some, many)
      end,
    }
    -- Half of a static batch of 64 ends 49 steps of 26 ms before its longest request, and then waits for 64 prompts.
    t:expect_all { column = "ttft_p50_s", at_least = 1, at_most = 5, where = { policy = "static", seats = 64 } }
    t:expect_all { column = "attainment_ratio", at_least = 0, at_most = 0.3,
      where = { policy = "static", seats = { 64, 256 } } }
    t:expect_that {
      text = "TTFT + TPOT x (output - 1) is the latency to 1e-9 s; x output, as the lecture has it, is one TPOT more",
      holds = function(_, rows)
        for _, row in ipairs(rows) do
          if row.e2e_off_s > 1e-9 or row.e2e_off_s < 0 or math.abs(row.lecture_e2e_off_tpot) > 1e-6 then
            return false, ("%g s"):format(row.e2e_off_s)
          end
        end
        return true
      end,
    }
    t:expect_that { -- "$/token = (GPU $/sec) / (tokens/sec per GPU)"
      text = "a million tokens cost price / 0.0036 / (tok/s), and good ones 5 times that or more with 256 seats",
      where = { policy = "continuous" },
      holds = function(at, rows)
        for _, row in ipairs(rows) do
          local usd = price_usd_per_h / 0.0036 / row.throughput_tok_s
          if math.abs(row.usd_per_million_tokens / usd - 1) > 1e-9 then return false, ("%.4f"):format(usd) end
        end
        local all, good = at { seats = 256 }.usd_per_million_tokens, at { seats = 256 }.usd_per_million_good_tokens
        if good == nil then return true, "no good ones" end
        return good >= 5 * all and good <= 1000 * all, ("%.2f for %.2f"):format(good, all)
      end,
    }
  end,
  plots = {
    { kind = "lines", x = "seats", y = "throughput_tok_s", by = "policy" },
    { kind = "lines", x = "seats", y = "goodput_request_per_s", by = "policy" },
  },
}
