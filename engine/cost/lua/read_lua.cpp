#include <fmt/format.h>

#include <cstdio>

#include "cost_lua.h"
#include "samples_lua.h"
#include "tessera/core/terminal_text.h"
#include "tessera/cost/read_samples.h"
#include "tessera/lua_kit/record.h"

namespace tessera::cost_lua {

const OptionTable& read_options() {
  static const OptionTable table =
      lua_kit::option_table<cost::ReadOptions>(
          {"ts.read_profile_data",
           "Measured latencies from a CSV file: samples for ts.fit_profile and ts.calibrate, and "
           "{ format, num_repeats, num_skipped, skipped[k] = { reason, count, first_line } } of "
           "the rows that were left out, which are also counted on stderr.",
           "table[]",
           {}})
          .with("kinds", {{.name = "warn",
                           .type = OptionType::boolean,
                           .doc = "Count rows that were left out on stderr",
                           .default_text = "true"}});
  return table;
}

int read_profile_data(lua_State* L) {
  const std::string path = lua_kit::check_text(L, 1, "ts.read_profile_data path");
  const lua_kit::Options options(L, 2, read_options(), "ts.read_profile_data");
  cost::ReadOptions read;
  lua_kit::read_options(options, read);
  read.driver_names = driver_names(core_lua::environment(L).folders);
  const cost::SampleFile file = cost::read_samples(path, read);
  const std::string warning = file.warning(path);
  if (!warning.empty() && options.boolean("warn"))
    write_text(stderr, fmt::format("warning: {}\n", warning));
  lua_createtable(L, static_cast<int>(file.samples.size()), 0);
  for (std::size_t i = 0; i < file.samples.size(); ++i) {
    push_sample(L, file.samples[i]);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  lua_kit::push_value(L, file);
  return 2;
}

}  // namespace tessera::cost_lua
