#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "program.h"

/// For tests of `tessera run` on experiments, each in a folder of its own.
namespace tessera::test {

class SweepTest : public FolderTest {
 protected:
  /// Runs the program in the test's folder.
  Process tessera(std::vector<std::string> arguments, ProcessSetup setup = {}) const {
    setup.directory = folder_.string();
    // What launches this test must not decide which part of the points runs.
    setup.environment.insert(
        setup.environment.begin(),
        {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"PMI_SIZE", "1"}, {"PMI_RANK", "0"}});
    return run_program(std::move(arguments), std::move(setup));
  }

  /// A script `name`.lua that declares an experiment of that name over i = 1 .. n; `body` is that
  /// of `run = function(point, context)`, `more` further fields.
  std::string experiment(const std::string& name, int n, const std::string& body,
                         const std::string& more = "") const {
    return file(name + ".lua", "local ts = require \"tessera\"\nlocal list = {}\nfor i = 1, " +
                                   std::to_string(n) +
                                   " do list[i] = i end\nreturn ts.experiment { name = \"" + name +
                                   "\", grid = { i = list }, " + more +
                                   " run = function(point, context) " + body + " end }\n");
  }

  /// Rows that are stored, by i.
  std::map<int, nlohmann::json> rows(const std::string& name,
                                     const std::string& database = "results.db") const {
    const Process p = tessera({"results", name, "--results", database, "--json"});
    std::map<int, nlohmann::json> found;
    if (p.status != 0) return found;
    for (const auto& row : nlohmann::json::parse(p.out)) {
      EXPECT_TRUE(found.emplace(row["point"]["i"].get<int>(), row).second) << "twice: " << row;
    }
    return found;
  }
};

/// Processes that run as workers of this one.
inline int num_workers_of(pid_t parent) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream stream(entry.path() / "cmdline", std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    if (text.find("--worker=" + std::to_string(parent) + ",") != std::string::npos) ++count;
  }
  return count;
}

}  // namespace tessera::test
