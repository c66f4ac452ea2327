#pragma once

#include <lua.hpp>

#include "tessera/core/option.h"

/// What scripts measure with a model: perplexity, zero-shot accuracy, calibration, and what the
/// quantisation of each layer costs.
namespace tessera::lm_lua {

const OptionTable& perplexity_options();
const OptionTable& zero_shot_options();

int model_perplexity(lua_State* L);
int model_zero_shot(lua_State* L);
int model_calibrate(lua_State* L);

/// layer_indicator(options): ts.indicator of kinds "loss" and "divergence".
int layer_indicator(lua_State* L);

void register_quality(lua_State* L);

}  // namespace tessera::lm_lua
