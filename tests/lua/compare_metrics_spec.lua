-- tessera compare --metrics: a running server's page over HTTP, which here another program plays; limits of time and
-- size, and what is no such page.

local core = require "tessera.core"
local host = require "tessera.host"
local http = require "tessera.http"
local support = require "support"
local ts = require "tessera"

-- 40 requests of 512 and 128 tokens, TTFT 0.203 s, TPOT 18.2 ms; other paths misbehave.
local server_text = [[
import http.server, socketserver, sys, threading, time
LABEL = "{model_name=\"meta-llama/Llama-3.1-8B-Instruct\"}"
PAGE = "".join(f"# TYPE vllm:{n} counter\nvllm:{n}{LABEL} {v}\n" for n, v in [
    ("num_requests_running", 8), ("num_requests_waiting", 0), ("prompt_tokens_total", 20480),
    ("generation_tokens_total", 5120), ("request_success_total", 40), ("time_to_first_token_seconds_sum", 8.12),
    ("time_to_first_token_seconds_count", 40), ("request_time_per_output_token_seconds_sum", 0.728),
    ("request_time_per_output_token_seconds_count", 40)]).encode()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self):
        if self.path == "/slow": time.sleep(4)
        if self.path == "/stop": threading.Thread(target=server.shutdown).start()
        body = b"x" * 200000 if self.path == "/big" else PAGE
        self.send_response(404 if self.path == "/missing" else 200)
        if self.path == "/chunked":
            self.send_header("Transfer-Encoding", "chunked"); self.end_headers()
            half = len(body) // 2
            for part in (body[:half], body[half:]): self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(len(body))); self.end_headers()
            self.wfile.write(body[:50] if self.path == "/cut" else body)
        if self.path == "/cut": self.close_connection = True
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
]]

describe("tessera compare --metrics", function()
  local pipe, address

  setup(function()
    local path = support.temporary(server_text)
    pipe = assert(io.popen("exec timeout 120 python3 " .. path))
    address = "http://127.0.0.1:" .. tostring(pipe:read "*l")
  end)
  teardown(function()
    pcall(http.get, address .. "/stop", "/", 5, 1e6)
    pipe:close()
    support.remove_files()
  end)

  local function get(path, time_limit_s, max_bytes)
    return http.get(address .. path, "/metrics", time_limit_s or 10, max_bytes or 1e5)
  end

  it("reads a page, whole or in chunks, /metrics where the URL has no path", function()
    local page = get ""
    assert.matches("^# TYPE vllm:num_requests_running", page)
    assert.equal(page, get "/metrics")
    assert.equal(page, get "/chunked")
  end)

  it("refuses what does not answer as such a server does, within its limits", function()
    support.raises("io", "status 404", function() get "/missing" end)
    support.raises("io", "more than 100000 bytes", function() get "/big" end)
    local started = core.clock()
    support.raises("io", "no whole answer within 0.3 s", function() get("/slow", 0.3) end)
    assert.is_true(core.clock() - started < 3)
    support.raises("io", "nothing answers", function() get "/cut" end)
    support.raises("io", "nothing answers", function() http.get("http://127.0.0.1:1", "/", 5, 10) end)
    for url, message in pairs { ["https://a/b"] = "https is not spoken", ["ftp://a"] = "a URL as in",
      ["http://"] = "a host belongs", ["http://a:b"] = "digits", ["http://u:p@a"] = "a URL as in",
      ["http://a\r\nX: y"] = "a URL as in" } do
      local ok, why = pcall(http.get, url, "/", 1, 10)
      assert.is_false(ok)
      assert.matches(message, core.error_text(why), nil, true)
    end
  end)

  it("puts it beside the plan, as the file of it", function()
    local plan = assert(ts.plan(ts.problem(support.settled { model = "llama-3.1-8b", cluster = "1xA100-80G",
      kernel_set = "vllm", bitwidths = { 16 },
      workload = { prompt_tokens = 512, output_tokens = 128, batch_size = 8 } })))
    local path = support.temporary() .. ".json"
    plan:save(path)
    local function rows(...)
      local status, out, err = host.run_program({ host.program, "compare", path, "--json", "--no-replan", ... }, "")
      assert.equal(0, status, err)
      return core.from_json(out).rows
    end
    local saved = support.temporary(get "")
    local live, file = rows("--metrics", address), rows(saved)
    assert.equal(#file, #live)
    assert.same(file, rows("--metrics", saved))
    local seen = {}
    for i, row in ipairs(live) do
      assert.equal(address, row.file)
      assert.equal(file[i].measured, row.measured)
      assert.equal(file[i].predicted, row.predicted)
      seen[row.metric] = row.measured
    end
    assert.near(0.0182, seen.tpot_s, 1e-9)
    assert.near(0.203, seen.ttft_s, 1e-9)
    local status, _, err = host.run_program({ host.program, "compare", path, "--metrics", address .. "/missing" }, "")
    assert.not_equal(0, status)
    assert.matches("status 404", err)
    for words, message in pairs { ["--metrics /no/such"] = "no file, and no URL as in", [""] = "name a plan and" } do
      local given = { host.program, "compare", path }
      for word in words:gmatch "%S+" do given[#given + 1] = word end
      status, _, err = host.run_program(given, "")
      assert.not_equal(0, status)
      assert.matches(message, err, nil, true)
    end
  end)
end)
