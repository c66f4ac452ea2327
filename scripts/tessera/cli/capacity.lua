-- `tessera capacity`: which engines serve a stream of requests within latency limits, with every flag of traffic and
-- engines.

return { main = require("tessera.cli.stream").main }
