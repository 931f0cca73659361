-- Asks the questions of a file with wrk, in their order, and prints one line of JSON at the end.
--
-- The environment has the arguments: BODIES (a file with one body per line), REQUEST_PATH, FIRST (the
-- number of the first body to ask) and, if callers need a token, TOKEN_FILE. With HAS_IDS, each request
-- has an X-Request-ID of its own. Run wrk with -t1: the threads of wrk share nothing, so several would ask the same questions.

local requests = {}
-- One less, since wrk takes a first request that it only examines.
local number = tonumber(os.getenv("FIRST")) - 1

function init(arguments)
  local headers = {["Content-Type"] = "application/json"}
  local token_file = os.getenv("TOKEN_FILE")
  if token_file then
    headers["Authorization"] = "Bearer " .. io.lines(token_file)()
  end
  -- Complete requests, so that formatting them takes no time from the load.
  for body in io.lines(os.getenv("BODIES")) do
    if os.getenv("HAS_IDS") then
      headers["X-Request-ID"] = string.format("request-%08d", #requests)
    end
    requests[#requests + 1] = wrk.format("POST", os.getenv("REQUEST_PATH"), headers, body)
  end
end

function request()
  number = number + 1
  return requests[(number - 1) % #requests + 1]
end

function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"microseconds":%d,"refused":%d,"failed":%d,' ..
    '"p50_us":%d,"p90_us":%d,"p99_us":%d,"max_us":%d}\n',
    summary.requests, summary.duration, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50), latency:percentile(90), latency:percentile(99), latency.max))
end
