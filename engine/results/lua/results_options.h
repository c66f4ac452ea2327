#pragma once

#include "tessera/core/option.h"

/// What the functions of `tessera.store` take.
namespace tessera::results_lua {

const OptionTable& open_options();
const OptionTable& start_run_options();
const OptionTable& add_options();
const OptionTable& runs_options();
const OptionTable& rows_options();
const OptionTable& merge_options();

}  // namespace tessera::results_lua
