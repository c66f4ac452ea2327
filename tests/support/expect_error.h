#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tessera/core/error.h"

namespace tessera::test {

/// Runs `body`, which must throw Error{code} whose message has every one of `parts`.
inline void expect_error(ErrorCode code, const std::vector<std::string>& parts,
                         const std::function<void()>& body) {
  try {
    body();
    ADD_FAILURE() << "no error; one about '" << (parts.empty() ? "" : parts[0]) << "' was due";
  } catch (const Error& e) {
    EXPECT_EQ(name_of(e.code()), name_of(code)) << e.what();
    for (const std::string& part : parts) EXPECT_THAT(e.what(), ::testing::HasSubstr(part));
  }
}

}  // namespace tessera::test
