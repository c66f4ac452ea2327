#pragma once

#include <string>

#include "tessera/core/json_fwd.h"
#include "tessera/solver/instance/instance.h"

namespace tessera::solver {

/// Reads an abstract instance (the format of the published planning instances: L, bits, B, s, n,
/// theta, omega, mem_layer_gb, mem_emb_gb, types, lat_pre, lat_dec, mem_tmp_pre_gb, mem_tmp_dec_gb,
/// link_gbs, pay_pre_gb, pay_dec_gb). 1 GB is 1e9 bytes. `allow_empty_stage` starts as true, as
/// that format says.
/// @throws Error{invalid_argument | out_of_range} naming file and field.
Instance instance_from_json(const Json& json, const std::string& path);

}  // namespace tessera::solver
