#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/record.h"
#include "tessera/core/record_json.h"
#include "tessera/core/record_options.h"
#include "tessera/core/requests.h"
#include "tessera/core/units.h"
#include "tessera/serving/traffic.h"

namespace tessera::serving {

inline constexpr std::int64_t kMaxRequests = 10'000'000;

enum class Arrivals { poisson, gamma, constant, closed };
enum class LengthKind { fixed, uniform, lognormal, exponential, geometric };

/// Whole numbers of at least 1. With limits a draw beyond one is set to it, and the mean is that of
/// what comes out: distributions are scaled until it is so, and real draws are rounded up with the
/// probability of their fraction.
struct LengthDistribution {
  LengthKind distribution = LengthKind::fixed;
  std::optional<double> mean;
  std::optional<double> cv;  ///< of the lognormal distribution before limits and rounding
  std::optional<std::int64_t> min, max;

  friend bool operator==(const LengthDistribution&, const LengthDistribution&) = default;
};
LengthDistribution fixed_length(std::int64_t tokens);

/// A share of the arrivals with what is special about them.
struct RequestClass {
  double share = 1;
  std::int32_t priority = 0;
  std::int32_t slo_class = 0;
  std::string model = {};  ///< that it is for; empty: any

  friend bool operator==(const RequestClass&, const RequestClass&) = default;
};

/// Another rate for a trace by its intervals: `merge` of them become one, each request at its place
/// within, and `factor` of the requests come.
struct Intervals {
  double interval_s = 60;
  std::int64_t merge = 1;
  double factor = 1;

  friend bool operator==(const Intervals&, const Intervals&) = default;
};

/// Users that go on: every turn's prompt is all that was said before and new tokens.
struct Sessions {
  LengthDistribution turns = fixed_length(4);
  double think_s = 0;  ///< mean of an exponential, from an answer's end to the next turn
  std::optional<std::int64_t> system_prompt_tokens;

  friend bool operator==(const Sessions&, const Sessions&) = default;
};

/// What requests come, and when.
struct TrafficOptions {
  std::optional<double> rate_per_s;  ///< infinity: all at once
  std::optional<Arrivals> arrivals;
  std::optional<double> burstiness, cv;
  std::optional<LengthDistribution> prompt_tokens, output_tokens;
  std::optional<std::int64_t> num_requests;
  std::optional<double> duration_s;
  std::int64_t seed = 0;
  std::optional<std::int64_t> concurrency;
  bool exact_rate = false;
  std::int64_t n = 1;
  std::optional<std::int64_t> max_tokens;
  std::vector<RequestClass> classes;
  std::optional<double> patience_s;
  std::optional<std::int64_t> prefix_groups, prefix_tokens;
  std::optional<double> prefix_share, prefix_zipf;
  std::optional<Sessions> sessions;
  std::string lengths;
  bool in_order = false;
  std::string trace;
  std::string category;
  std::optional<Intervals> intervals;
  std::optional<double> rate_scale, thin, start_s;
  bool sort = false;

  friend bool operator==(const TrafficOptions&, const TrafficOptions&) = default;
};

/// The requests. Arrivals, prompts, outputs, prefixes, classes and sessions draw from streams of
/// their own, so that other lengths leave the arrivals as they were; gaps are drawn for a rate of 1
/// and divided by the rate. @throws Error naming the option ("ts.traffic.rate_per_s"), or the file
/// and line.
Traffic make_traffic(const TrafficOptions& options, const std::string& path);

/// The same requests, their arrivals closer or further apart so that `rate_per_s` of them come on
/// average; think times of sessions stay. @throws Error{invalid_argument} where arrivals have no
/// rate: a closed loop, all at once, a single one; errors name `path`.
Traffic scaled(const Traffic& traffic, double rate_per_s, const std::string& path = "rate_per_s");

/// Reads the CSV of a trace and nothing else: no window, no scaling. @throws Error naming the file
/// and the line.
Traffic read_trace(const std::string& path, bool sort = false);
/// Writes requests so that `trace = path` gives the same ones, to the tick. The limit of a closed
/// loop is no part of a trace. @throws Error as write_file.
void write_trace(const Traffic& traffic, const std::string& path);

/// What is known of requests before they are served.
struct TrafficSummary {
  std::int64_t num_requests = 0;
  std::optional<double> rate_per_s;  ///< asked for; of traces measured
  double mean_prompt_tokens = 0;
  double mean_output_tokens = 0;
  std::optional<double> cv;  ///< of the gaps between arrivals, later turns left out
  double duration_s = 0;     ///< until the last arrival, later turns left out
};
TrafficSummary summary_of(const Traffic& traffic);

}  // namespace tessera::serving

namespace tessera {

template <>
inline constexpr auto kEnumNames<serving::Arrivals> =
    enum_names<serving::Arrivals>({{serving::Arrivals::poisson, "poisson"},
                                   {serving::Arrivals::gamma, "gamma"},
                                   {serving::Arrivals::constant, "constant"},
                                   {serving::Arrivals::closed, "closed"}});
template <>
inline constexpr auto kEnumNames<serving::LengthKind> =
    enum_names<serving::LengthKind>({{serving::LengthKind::fixed, "fixed"},
                                     {serving::LengthKind::uniform, "uniform"},
                                     {serving::LengthKind::lognormal, "lognormal"},
                                     {serving::LengthKind::exponential, "exponential"},
                                     {serving::LengthKind::geometric, "geometric"}});

/// A fixed length is a plain number in files and scripts.
template <>
struct JsonValue<serving::LengthDistribution> {
  static Json write(const serving::LengthDistribution& lengths);
  static serving::LengthDistribution read(const Json& json, const std::string& path,
                                          const FieldSpec& spec);
};

template <>
struct Fields<serving::LengthDistribution> {
  using Lengths = serving::LengthDistribution;
  static constexpr double kMax = kMaxTokensPerRequest;
  static constexpr auto list = std::tuple{
      field<&Lengths::distribution>(
          {.name = "distribution", .doc = "How lengths vary", .in_file = InFile::defaulted}),
      field<&Lengths::mean>({.name = "mean",
                             .doc = "Mean, limits and rounding included",
                             .min = 1,
                             .max = kMax,
                             .in_file = InFile::when_set}),
      field<&Lengths::cv>({.name = "cv",
                           .doc = "Standard deviation by mean of a lognormal distribution",
                           .min = 1e-6,
                           .max = 100,
                           .in_file = InFile::when_set}),
      field<&Lengths::min>(
          {.name = "min", .doc = "Least", .min = 1, .max = kMax, .in_file = InFile::when_set}),
      field<&Lengths::max>(
          {.name = "max", .doc = "Most", .min = 1, .max = kMax, .in_file = InFile::when_set})};
  static void check(const Lengths& lengths, const FieldPath& path);
};

template <>
struct Fields<serving::RequestClass> {
  using Class = serving::RequestClass;
  static constexpr auto list =
      std::tuple{field<&Class::share>({.name = "share",
                                       .doc = "Of the arrivals; those of all classes sum to 1",
                                       .min = 0,
                                       .max = 1}),
                 field<&Class::priority>({.name = "priority",
                                          .doc = "Lower goes first",
                                          .min = -1e9,
                                          .max = 1e9,
                                          .in_file = InFile::when_set}),
                 field<&Class::slo_class>({.name = "slo_class",
                                           .doc = "Index into the classes of the SLO, from 0",
                                           .min = 0,
                                           .max = 1000,
                                           .in_file = InFile::when_set}),
                 field<&Class::model>({.name = "model",
                                       .doc = "That they are for, of ts.deployment { models = }",
                                       .in_file = InFile::when_set})};
};

template <>
struct Fields<serving::Intervals> {
  using Intervals = serving::Intervals;
  static constexpr auto list = std::tuple{
      field<&Intervals::interval_s>({.name = "interval_s",
                                     .doc = "Length of an interval",
                                     .unit = "s",
                                     .min = 1e-3,
                                     .max = serving::kLongestRun_s}),
      field<&Intervals::merge>({.name = "merge",
                                .doc = "So many neighbours become one: their requests come "
                                       "together, each at its place within its interval",
                                .min = 1,
                                .max = 1e6,
                                .in_file = InFile::defaulted}),
      field<&Intervals::factor>({.name = "factor",
                                 .doc = "Of the requests so many come, as even as can be; beyond 1 "
                                        "some come again, at another time of their interval",
                                 .min = 1e-6,
                                 .max = 1e3,
                                 .in_file = InFile::defaulted})};
};

template <>
struct Fields<serving::Sessions> {
  using Sessions = serving::Sessions;
  static constexpr auto list = std::tuple{
      field<&Sessions::turns>(
          {.name = "turns", .doc = "Requests of a session, a number or a distribution"}),
      field<&Sessions::think_s>({.name = "think_s",
                                 .doc = "Mean time from an answer to the next turn, exponential",
                                 .unit = "s",
                                 .min = 0,
                                 .max = 1e6,
                                 .in_file = InFile::defaulted}),
      field<&Sessions::system_prompt_tokens>({.name = "system_prompt_tokens",
                                              .doc = "What all sessions begin with",
                                              .unit = "tokens",
                                              .min = 1,
                                              .max = kMaxTokensPerRequest,
                                              .in_file = InFile::when_set})};
};

template <>
struct Fields<serving::TrafficSummary> {
  using Summary = serving::TrafficSummary;
  static constexpr auto list = std::tuple{
      field<&Summary::num_requests>({.name = "num_requests", .doc = "Requests, all turns counted"}),
      field<&Summary::rate_per_s>({.name = "rate_per_s",
                                   .doc = "Requests per second offered, of traces as measured; nil "
                                          "of a closed loop and where all come at once",
                                   .unit = "1/s"}),
      field<&Summary::mean_prompt_tokens>({.name = "mean_prompt_tokens",
                                           .doc = "Mean prompt length, shared prefixes included",
                                           .unit = "tokens"}),
      field<&Summary::mean_output_tokens>({.name = "mean_output_tokens",
                                           .doc = "Mean number of generated tokens",
                                           .unit = "tokens"}),
      field<&Summary::cv>({.name = "cv",
                           .doc = "Standard deviation by mean of the gaps between arrivals: 1 of a "
                                  "Poisson process; later turns are left out"}),
      field<&Summary::duration_s>({.name = "duration_s",
                                   .doc = "Until the last arrival, later turns left out",
                                   .unit = "s"})};
};

template <>
struct Fields<serving::TrafficOptions> {
  using Options = serving::TrafficOptions;
  static constexpr double kMaxTokens = kMaxTokensPerRequest;
  static constexpr std::string_view kLengthType = "integer|table";
  static constexpr auto list = std::tuple{
      field<&Options::rate_per_s>(
          {.name = "rate_per_s",
           .doc = "Requests per second; math.huge: all at once, as vLLM's benchmark has it. "
                  "Sessions and groups of n come as often as makes this rate of requests. Of a "
                  "trace: its gaps are divided so that this is its rate",
           .unit = "1/s",
           .min = 0,
           .max = kHuge,
           .in_file = InFile::when_set}),
      field<&Options::arrivals>(
          {.name = "arrivals",
           .doc = "Open loop: independent of the answers (poisson, gamma, constant gaps); closed: "
                  "a request is sent when one ends, with `concurrency` under way",
           .in_file = InFile::when_set,
           .default_text = "\"poisson\""}),
      field<&Options::burstiness>(
          {.name = "burstiness",
           .doc = "Shape of gamma gaps, as in vLLM's benchmark: 1 is Poisson, less is burstier",
           .min = 1e-4,
           .max = 1e6,
           .in_file = InFile::when_set}),
      field<&Options::cv>({.name = "cv",
                           .doc = "The same as standard deviation by mean of gaps: burstiness is "
                                  "1 / cv^2",
                           .min = 1e-3,
                           .max = 100,
                           .in_file = InFile::when_set}),
      field<&Options::prompt_tokens>(
          {.name = "prompt_tokens",
           .doc = "Prompt length: a number, or { distribution = \"fixed\" | \"uniform\" | "
                  "\"lognormal\" | \"exponential\" | \"geometric\", mean =, cv =, min =, max = }; "
                  "shared prefixes and earlier turns come on top",
           .unit = "tokens",
           .in_file = InFile::when_set,
           .option_type = kLengthType,
           .default_text = "512"}),
      field<&Options::output_tokens>(
          {.name = "output_tokens",
           .doc = "Tokens that a request generates, likewise; no scheduler sees it",
           .unit = "tokens",
           .in_file = InFile::when_set,
           .option_type = kLengthType,
           .default_text = "128"}),
      field<&Options::num_requests>(
          {.name = "num_requests",
           .doc = "Requests in all; of a trace the first so many; default: 1000 without duration_s "
                  "and files, else all",
           .min = 1,
           .max = serving::kMaxRequests,
           .in_file = InFile::when_set}),
      field<&Options::duration_s>(
          {.name = "duration_s",
           .doc = "How long requests arrive, instead of num_requests; of a trace: the length of "
                  "the window, before any change of rate",
           .unit = "s",
           .min = 1e-9,
           .max = serving::kLongestRun_s,
           .in_file = InFile::when_set}),
      field<&Options::seed>({.name = "seed",
                             .doc = "The same seed gives the same requests",
                             .min = 0,
                             .max = kMaxExactInteger,
                             .in_file = InFile::defaulted,
                             .as_option = AsOption::defaulted}),
      field<&Options::concurrency>({.name = "concurrency",
                                    .doc = "Requests under way in a closed loop",
                                    .min = 1,
                                    .max = 1e6,
                                    .in_file = InFile::when_set}),
      field<&Options::exact_rate>(
          {.name = "exact_rate",
           .doc = "Stretches the gaps so that the last arrival is at num_requests / rate_per_s, as "
                  "vLLM's benchmark does; the count in a given time varies less then",
           .in_file = InFile::when_set,
           .as_option = AsOption::defaulted}),
      field<&Options::n>({.name = "n",
                          .doc = "Parallel sampling: so many requests of the same prompt come "
                                 "together, each with an output length of its own (of a file of "
                                 "lengths the same)",
                          .min = 1,
                          .max = 1024,
                          .in_file = InFile::when_set,
                          .as_option = AsOption::defaulted}),
      field<&Options::max_tokens>(
          {.name = "max_tokens",
           .doc = "Limit of the output, which schedulers may see; longer outputs end there; "
                  "default: the output itself",
           .unit = "tokens",
           .min = 1,
           .max = kMaxTokens,
           .in_file = InFile::when_set}),
      field<&Options::classes, ListFromOne<serving::RequestClass>>(
          {.name = "classes",
           .doc = "Shares of the arrivals with priorities, SLO classes and models: { { share =, "
                  "priority =, slo_class =, model = }, ... }; a session is of one class",
           .in_file = InFile::when_set,
           .option_type = "table[]"}),
      field<&Options::patience_s>(
          {.name = "patience_s",
           .doc =
               "Clients leave if they are not answered in time, and their requests are cancelled: "
               "mean of an exponential; default: nobody leaves",
           .unit = "s",
           .min = 1e-9,
           .max = 1e5,
           .in_file = InFile::when_set}),
      field<&Options::prefix_groups>({.name = "prefix_groups",
                                      .doc = "Different prefixes that prompts share",
                                      .min = 1,
                                      .max = 1e6,
                                      .in_file = InFile::when_set}),
      field<&Options::prefix_tokens>(
          {.name = "prefix_tokens",
           .doc = "Length of a shared prefix, before the prompt's own prompt_tokens",
           .unit = "tokens",
           .min = 1,
           .max = kMaxTokens,
           .in_file = InFile::when_set}),
      field<&Options::prefix_share>({.name = "prefix_share",
                                     .doc = "Share of arrivals that begin with a shared prefix",
                                     .min = 0,
                                     .max = 1,
                                     .in_file = InFile::when_set,
                                     .default_text = "1"}),
      field<&Options::prefix_zipf>(
          {.name = "prefix_zipf",
           .doc = "Exponent s of the groups' popularity, the k-th having a share of k^-s; 0: all "
                  "alike",
           .min = 0,
           .max = 10,
           .in_file = InFile::when_set,
           .default_text = "0"}),
      field<&Options::sessions>(
          {.name = "sessions",
           .doc =
               "Conversations: { turns = (a number or a distribution), think_s =, "
               "system_prompt_tokens = }; a turn's prompt is all before it and prompt_tokens new "
               "ones",
           .in_file = InFile::when_set}),
      field<&Options::lengths>(
          {.name = "lengths",
           .doc = "CSV of prompt and output lengths, in place of prompt_tokens and output_tokens: "
                  "pairs are drawn from it with the seed",
           .in_file = InFile::when_set}),
      field<&Options::in_order>({.name = "in_order",
                                 .doc = "Takes the pairs of `lengths` as they stand in the file, "
                                        "from the start again after the last",
                                 .in_file = InFile::when_set,
                                 .as_option = AsOption::defaulted}),
      field<&Options::trace>(
          {.name = "trace",
           .doc = "CSV of requests with arrivals: arrival_s, prompt_tokens, output_tokens and "
                  "optional model, prefix_group, prefix_tokens, priority, slo_class, max_tokens, "
                  "session, after, cancel_after_s; Azure's, Vidur's and Mooncake's columns too; or "
                  "rates "
                  "over time as "
                  "ServeGen's, t_s, rate_per_s and category",
           .in_file = InFile::when_set}),
      field<&Options::category>({.name = "category",
                                 .doc = "Which rates of a file of rates",
                                 .in_file = InFile::when_set}),
      field<&Options::intervals>(
          {.name = "intervals",
           .doc =
               "Another rate of a trace by its intervals: { interval_s = 60, merge = 2, factor = "
               "0.4 }, in place of divided gaps; keeps bursts in seconds",
           .in_file = InFile::when_set}),
      field<&Options::rate_scale>(
          {.name = "rate_scale",
           .doc = "Divides all gaps of a trace, which keeps their CV, not bursts in seconds; "
                  "multiplies the rates of a file of rates",
           .min = 1e-6,
           .max = 1e6,
           .in_file = InFile::when_set}),
      field<&Options::thin>({.name = "thin",
                             .doc = "Share of a trace's requests to keep, whole sessions where it "
                                    "has any",
                             .min = 1e-9,
                             .max = 1,
                             .in_file = InFile::when_set}),
      field<&Options::start_s>({.name = "start_s",
                                .doc = "Start of the window of a trace",
                                .unit = "s",
                                .min = 0,
                                .max = serving::kLongestRun_s,
                                .in_file = InFile::when_set}),
      field<&Options::sort>(
          {.name = "sort",
           .doc = "Sorts a trace by arrival; an unsorted one is refused otherwise",
           .in_file = InFile::when_set,
           .as_option = AsOption::defaulted})};
  static void check(const Options& options, const FieldPath& path);
};

}  // namespace tessera
