#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "folder.h"
#include "process.h"

/// For tests that start the program. They are compiled with its path in TESSERA_PROGRAM.
namespace tessera::test {

/// Runs the program to its end.
inline Process run_program(std::vector<std::string> arguments, ProcessSetup setup = {}) {
  arguments.insert(arguments.begin(), TESSERA_PROGRAM);
  return run_process(arguments, std::move(setup));
}

inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Whether the program refused: this status, one clear line first, nothing on stdout, no crash.
inline void expect_refusal(const Process& p, int status, const std::string& text) {
  const std::string line = first_line(p.err);
  EXPECT_EQ(p.status, status) << p.err;
  EXPECT_THAT(line, testing::StartsWith("tessera: "));
  EXPECT_THAT(line, testing::HasSubstr(text));
  EXPECT_LT(line.size(), 600u);
  EXPECT_THAT(p.err, testing::Not(testing::HasSubstr("Sanitizer")));
  EXPECT_THAT(p.err, testing::Not(testing::HasSubstr("runtime error:")));
  EXPECT_THAT(p.err, testing::Not(testing::HasSubstr("terminate called")));
}

}  // namespace tessera::test
