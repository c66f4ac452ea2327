#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Of a prompt or an output, at most, wherever lengths are read or drawn.
inline constexpr std::int64_t kMaxTokensPerRequest = 100'000'000;

/// One request of a trace.
struct TracedRequest {
  std::int64_t prompt_tokens = 1;
  std::int64_t output_tokens = 1;
  double arrival_s = 0;  ///< after the first of the trace
};

/// Requests as they were seen somewhere; by arrival where that is known.
struct RequestTrace {
  std::vector<TracedRequest> requests;  ///< not empty
  bool has_arrivals = false;
  std::int64_t num_left_out = 0;  ///< longer than what was asked for

  double mean_prompt_tokens() const;
  double mean_output_tokens() const;
  std::int64_t max_prompt_tokens() const;
  std::int64_t max_output_tokens() const;
  /// Tokens in the KV cache, mean over the decode steps of all requests: a long answer has more of
  /// them.
  double mean_context_tokens() const;
};

/// A point in time, in parts that both are exact to the digits written.
struct TimeStamp {
  std::int64_t whole_s = 0;  ///< since 1970
  double fraction_s = 0;     ///< in [0, 1)
};
/// "2023-11-16 18:15:46.6805900", also with T between and Z or "+02:00" behind; nothing for other
/// texts.
std::optional<TimeStamp> parse_time_stamp(std::string_view text);

/// Reads prompt and output lengths from CSV or objects (request_table.h). Columns are found by
/// name, in any case: prompt_tokens, ContextTokens (Azure), num_prefill_tokens (Vidur),
/// input_length (Mooncake), Request tokens (BurstGPT) and so on, and where requests arrived,
/// TIMESTAMP, arrival_s or arrived_at, as seconds or as "2023-11-16 18:15:46.68". Without such
/// names the last two columns are prompt and output, with a header or not. Of others' traces,
/// requests without an answer are left out. Requests with a longer prompt or output than the limits
/// are left out.
/// @throws Error naming the file, and the line of a length that is no integer in [1, 1e8].
RequestTrace read_requests(const std::string& path, std::int64_t max_prompt_tokens,
                           std::int64_t max_output_tokens);

/// "374 44 0;396 109 4.31": prompt, output and, where known, arrival. Reads back exactly.
std::string to_text(const RequestTrace& trace);
/// @throws Error{invalid_argument} naming `path` and the request.
RequestTrace requests_from_text(std::string_view text, const std::string& path);

}  // namespace tessera
