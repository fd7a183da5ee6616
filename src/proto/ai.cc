#include "mvm/proto/ai.h"

#include <array>

#include "messages.h"

namespace mvm::proto {
namespace {

struct Limit {
  std::string_view name;
  std::optional<uint64_t> AiBudget::* member;
};
constexpr std::array kLimits{Limit{"max_total_tokens", &AiBudget::max_total_tokens},
                             Limit{"max_input_tokens", &AiBudget::max_input_tokens},
                             Limit{"max_output_tokens", &AiBudget::max_output_tokens},
                             Limit{"max_requests", &AiBudget::max_requests}};

std::vector<std::string> read_texts(CborReader& in) {
  return proto::read_texts(in, kMaxAiWords, kMaxAiText);
}

}

Bytes AiBudget::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    for (const Limit& limit : kLimits)
      if (this->*limit.member) map.unsigned_integer(limit.name, *(this->*limit.member));
    if (!max_cost.empty()) map.string("max_cost", max_cost);
  }
  return out;
}

std::optional<AiBudget> AiBudget::decode(ByteView data) {
  AiBudget budget;
  CborReader in(data);
  for (Fields field(in); field.next();) {
    bool known = false;
    for (const Limit& limit : kLimits) {
      if (!field.is(limit.name)) continue;
      budget.*limit.member = in.unsigned_integer();
      known = true;
    }
    if (known) continue;
    if (field.is("max_cost")) {
      budget.max_cost = in.string(kMaxAiText);
    } else {
      field.skip();
    }
  }
  return finished(in, budget);
}

Bytes AiConfig::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.boolean("metering", metering);
    map.field("budget").raw(budget.encode());
    map.string("on_unknown", on_unknown);
    map.boolean("reserve", reserve);
    map.boolean("inject_stream_usage", inject_stream_usage);
    write_texts(map.field("providers"), providers);
    write_texts(map.field("budgets"), budgets);
    write_texts(map.field("prices"), prices);
  }
  return out;
}

std::optional<AiConfig> AiConfig::decode(ByteView data) {
  AiConfig config;
  CborReader in(data);
  for (Fields field(in); field.next();) {
    if (field.is("metering")) {
      config.metering = in.boolean();
    } else if (field.is("budget")) {
      const auto budget = AiBudget::decode(in.skip());
      if (!budget) in.fail();
      config.budget = budget.value_or(AiBudget{});
    } else if (field.is("on_unknown")) {
      config.on_unknown = in.string(kMaxAiText);
    } else if (field.is("reserve")) {
      config.reserve = in.boolean();
    } else if (field.is("inject_stream_usage")) {
      config.inject_stream_usage = in.boolean();
    } else if (field.is("providers")) {
      config.providers = read_texts(in);
    } else if (field.is("budgets")) {
      config.budgets = read_texts(in);
    } else if (field.is("prices")) {
      config.prices = read_texts(in);
    } else {
      field.skip();
    }
  }
  return finished(in, config);
}

Bytes AiBudgetRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.string("verb", kSandboxAiBudgetVerb);
    if (!of.empty()) map.string("of", of);
    if (budget) map.field("budget").raw(budget->encode());
    map.boolean("reset", reset);
  }
  return out;
}

std::optional<AiBudgetRequest> AiBudgetRequest::decode(ByteView payload) noexcept {
  CborReader in(payload);
  AiBudgetRequest request;
  for (Fields field(in); field.next();) {
    if (field.is("of")) {
      request.of = in.string(kMaxAiText);
    } else if (field.is("budget")) {
      request.budget = AiBudget::decode(in.skip());
      if (!request.budget) in.fail();
    } else if (field.is("reset")) {
      request.reset = in.boolean();
    } else {
      field.skip();
    }
  }
  return finished(in, request);
}

}
