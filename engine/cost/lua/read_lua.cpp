#include <fmt/format.h>

#include <cstdio>

#include "cost_lua.h"
#include "samples_lua.h"
#include "tessera/core/terminal_text.h"
#include "tessera/cost/read_samples.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/value.h"

namespace tessera::cost_lua {

const OptionTable& read_options() {
  static const OptionTable table{
      "ts.read_profile_data",
      "Measured latencies from a CSV file: samples for ts.fit_profile and ts.calibrate, and "
      "{ format, num_repeats, num_skipped, skipped[k] = { reason, count, first_line } } of the "
      "rows that were left out, which are also counted on stderr.",
      "table[]",
      {{.name = "format",
        .type = OptionType::choice,
        .doc = "Whose table it is; default: by its header",
        .choices = {"tessera", "aiconfigurator", "vidur", "helix", "llmpq"}},
       {.name = "device",
        .type = OptionType::text,
        .doc = "Device that was measured, where the file does not say or says it otherwise"},
       {.name = "kernel_set",
        .type = OptionType::text,
        .doc = "Kernels that were measured; default: the file's, modern (aiconfigurator), vllm "
               "(Vidur, Helix), or LLM-PQ's of the row's date"},
       {.name = "model",
        .type = OptionType::text,
        .doc = "Model whose layers were measured, where the file does not say"},
       {.name = "kinds",
        .type = OptionType::text_list,
        .doc = "Of a table with a column `kind`: the rows to take",
        .default_text = "{ \"measured\" }"},
       {.name = "warn",
        .type = OptionType::boolean,
        .doc = "Count rows that were left out on stderr",
        .default_text = "true"}}};
  return table;
}

namespace {

void push_account(lua_State* L, const cost::SampleFile& file) {
  std::int64_t num_skipped = 0;
  lua_createtable(L, 0, 4);
  lua_kit::set_text(L, "format", file.format);
  lua_kit::set_integer(L, "num_repeats", file.num_repeats);
  lua_createtable(L, static_cast<int>(file.skipped.size()), 0);
  for (std::size_t k = 0; k < file.skipped.size(); ++k) {
    const cost::SkippedRows& rows = file.skipped[k];
    num_skipped += rows.count;
    lua_createtable(L, 0, 3);
    lua_kit::set_text(L, "reason", rows.reason);
    lua_kit::set_integer(L, "count", rows.count);
    lua_kit::set_integer(L, "first_line", static_cast<std::int64_t>(rows.first_line));
    lua_rawseti(L, -2, static_cast<int>(k) + 1);
  }
  lua_setfield(L, -2, "skipped");
  lua_kit::set_integer(L, "num_skipped", num_skipped);
}

}  // namespace

int read_profile_data(lua_State* L) {
  const std::string path = lua_kit::check_text(L, 1, "ts.read_profile_data path");
  const lua_kit::Options options(L, 2, read_options(), "ts.read_profile_data");
  cost::ReadOptions read;
  if (options.given("format")) read.format = options.choice("format");
  if (options.given("device")) read.device = options.text("device");
  if (options.given("kernel_set")) read.kernel_set = options.text("kernel_set");
  if (options.given("model")) read.model = options.text("model");
  read.kinds = options.texts("kinds");
  const cost::SampleFile file = cost::read_samples(path, read);
  const std::string warning = file.warning(path);
  if (!warning.empty() && options.boolean("warn"))
    write_text(stderr, fmt::format("warning: {}\n", warning));
  lua_createtable(L, static_cast<int>(file.samples.size()), 0);
  for (std::size_t i = 0; i < file.samples.size(); ++i) {
    push_sample(L, file.samples[i]);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  push_account(L, file);
  return 2;
}

}  // namespace tessera::cost_lua
