#pragma once

#include "tessera/core/enum_names.h"
#include "tessera/serving/log.h"

template <>
inline constexpr auto tessera::kEnumNames<tessera::serving::Limit> =
    tessera::enum_names<tessera::serving::Limit>({{tessera::serving::Limit::none, "none"},
                                                  {tessera::serving::Limit::seats, "seats"},
                                                  {tessera::serving::Limit::tokens, "tokens"},
                                                  {tessera::serving::Limit::blocks, "blocks"},
                                                  {tessera::serving::Limit::policy, "policy"}});

template <>
inline constexpr auto tessera::kEnumNames<tessera::serving::Outcome> =
    tessera::enum_names<tessera::serving::Outcome>(
        {{tessera::serving::Outcome::unfinished, "unfinished"},
         {tessera::serving::Outcome::finished, "finished"},
         {tessera::serving::Outcome::rejected, "rejected"},
         {tessera::serving::Outcome::cancelled, "cancelled"}});
