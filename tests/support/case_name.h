#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <type_traits>

namespace tessera::test {

/// Names the cases of INSTANTIATE_TEST_SUITE_P by the texts that they are, or by what PrintTo says
/// of them; `_` stands for what such a name may not have.
struct CaseName {
  template <typename Param>
  std::string operator()(const testing::TestParamInfo<Param>& test) const {
    std::string text;
    if constexpr (std::is_convertible_v<Param, std::string>) {
      text = test.param;
    } else {
      text = testing::PrintToString(test.param);
    }
    std::string name;
    for (const char c : text) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
        name += c;
      } else if (!name.empty() && name.back() != '_') {
        name += '_';
      }
    }
    while (!name.empty() && name.back() == '_') name.pop_back();
    return name;
  }
};
inline constexpr CaseName case_name{};

}  // namespace tessera::test
