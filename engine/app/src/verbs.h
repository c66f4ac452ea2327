#pragma once

#include <string_view>
#include <vector>

#include "tessera/core/option.h"

namespace tessera::app {

/// A verb of the command line whose work is done by the library in Lua: the flags are checked as
/// `options` says, then `require(module).main(options)` is called. The words without a flag are its
/// `names`. `main` returns nothing or an exit status, or nil and why.
struct LuaVerb {
  std::string_view name;        ///< "results"
  std::string_view module;      ///< "tessera.cli.results"
  std::string_view positional;  ///< what its words without a flag are: "NAME"; "" for none
  std::string_view summary;     ///< one line for `tessera help`
  const OptionTable& options;   ///< its name is "tessera results"
};

/// All of them, in the order of `tessera help`.
const std::vector<LuaVerb>& lua_verbs();

/// The flags of `tessera run`, which `tessera.host.run_options` holds.
const OptionTable& run_options();

/// An option that is a word or a path.
OptionSpec as_text(std::string_view name, std::string_view doc);
/// --report, a page that stands alone.
OptionSpec report_flag();
/// --usd-per-hour, which cli/taken.lua reads.
OptionSpec prices_option();
/// Adds the library's own options to those of a verb, so that flags and scripts cannot disagree.
void take_flags(OptionTable& table, const std::vector<OptionSpec>& options);

/// Adds the bounds on quality, with what verbs keep to where none is given.
void add_quality_bound(OptionTable& table);
/// Adds --launch, which says what it writes of whom, and what belongs to it.
void add_launch_flags(OptionTable& table, OptionSpec launch);
/// Lengths of a stream's requests where nobody says them; scripts see them in tessera.host.stream.
constexpr int kStreamPromptTokens = 1000;
constexpr int kStreamOutputTokens = 200;
/// Adds the limits on latency and the rate of a stream of requests.
void add_stream_flags(OptionTable& table);

// One table per verb, in verbs/.
const OptionTable& plan_options();
const OptionTable& indicator_verb_options();
const OptionTable& generate_verb_options();
const OptionTable& execute_verb_options();
const OptionTable& serve_verb_options();
const OptionTable& view_verb_options();
const OptionTable& stage_verb_options();
const OptionTable& quality_verb_options();
const OptionTable& bench_verb_options();
const OptionTable& results_options();
const OptionTable& report_options();
const OptionTable& plot_options();
const OptionTable& examples_options();
const OptionTable& data_options();
const OptionTable& man_options();
const OptionTable& detect_options();
const OptionTable& profile_verb_options();
const OptionTable& support_options();
const OptionTable& compare_options();
const OptionTable& capacity_options();
const OptionTable& quantise_verb_options();
const OptionTable& select_options();
const OptionTable& fleet_options();
const OptionTable& strategies_options();

}  // namespace tessera::app
