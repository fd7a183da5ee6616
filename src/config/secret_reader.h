#pragma once
// [secrets] of mvm.toml. Names of its keys are few and fixed, so they stand here and not in the
// schema.

#include <functional>
#include <map>
#include <string>

#include "mvm/proto/secrets.h"

#include "toml.h"

namespace mvm::config {

class SecretReader {
 public:
  using Complain = std::function<void(const toml::source_position&, std::string)>;
  explicit SecretReader(Complain complain) : complain_(std::move(complain)) {}

  std::map<std::string, proto::SecretRule> read(const toml::node& node);

 private:
  using Check = std::optional<std::string> (*)(std::string_view);
  void read_rule(const toml::table& table, proto::SecretRule& rule);
  void text(std::string_view name, const toml::node& node, std::string& into, Check check);
  void texts(std::string_view name, const toml::node& node, std::vector<std::string>& into,
             Check check);
  void boolean(std::string_view name, const toml::node& node, bool& into);
  std::string place(std::string_view name) const { return rule_ + "." + std::string(name); }

  Complain complain_;
  std::string rule_;  // "secrets.NAME"
};

}
