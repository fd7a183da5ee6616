#include "withhold.h"

#include "mvm/base/text.h"
#include "mvm/privacy/rules.h"
#include "mvm/protect/vault.h"

namespace mvm::sandbox {
namespace {

std::shared_ptr<const protect::PatternSet> patterns_of(
    const std::optional<proto::NetworkConfig>& config) {
  if (!config || config->pii.patterns.empty()) return nullptr;
  return privacy::compile(config->pii).patterns;
}

std::optional<std::string> put(const protect::Finding&, std::string_view) {
  return std::string(Withholder::kWithheld);
}

}

Withholder::Withholder(std::shared_ptr<const secret::Secrets> secrets,
                       const std::optional<proto::NetworkConfig>& config)
    : secrets_(std::move(secrets)), scanner_({protect::ClassSet::all(), patterns_of(config)}) {}

bool Withholder::holds_secret(std::string_view text) const {
  return secrets_ != nullptr &&
         secrets_->values().find(text, 0, true).kind == secret::Finder::Hit::Kind::Whole;
}

bool Withholder::holds(std::string_view text) {
  return holds_secret(text) || text.find(protect::kTokenMark) != text.npos ||
         !scanner_.look({}, text, put).empty();
}

std::string Withholder::host(std::string_view name) {
  if (name.empty()) return {};
  if (name != last_host_) {
    last_cleaned_ = host_without_values(name);
    last_host_ = name;
  }
  return last_cleaned_;
}

// A label at a time: to the detectors a value that goes on behind a dot is none.
std::string Withholder::host_without_values(std::string_view name) {
  if (secrets_ != nullptr && secrets_->in_name(name)) return std::string(kWithheld);
  std::string out;
  for (const std::string_view label : split(name, '.')) {
    out += scanner_.look({}, label, put).empty() ? label : kWithheld;
    out += '.';
  }
  out.pop_back();
  return out;
}

std::string Withholder::path(std::string_view target) {
  if (target.empty()) return {};
  if (holds_secret(target)) return "/" + std::string(kWithheld);
  return protect::rewritten_url_text(scanner_, {}, target, protect::UrlText::Path, put)
      .value_or(std::string(target));
}

egress::Event Withholder::cleaned(egress::Event event) {
  event.host = host(event.host);
  event.path = path(event.path);
  return event;
}

}
