#pragma once

#include <string>

#include "tessera/solver/mip/linear_model.h"

namespace tessera::solver {

/// Writes a model whose columns and rows have names in the format of the path's extension, .lp
/// (CPLEX LP) or .mps (free MPS), every number with the 15 digits that a double holds.
/// The file is as an OutputFile writes it (core/output.h), and looked through to its end: COIN-OR
/// does not say when writing failed.
/// @throws Error{invalid_argument} for another extension, Error{io | solver} when writing fails.
void write_model_file(const LinearModel& model, const std::string& path);

/// Reads it back. @throws Error{io | invalid_argument} for what is no such file, or only its start.
LinearModel read_model_file(const std::string& path);

}  // namespace tessera::solver
