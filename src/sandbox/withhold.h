#pragma once
// What a guest may have put where the audit log has a place for a word of its own: values of
// secrets and personal data in paths, in names that it asked for, in models' names. They are left
// out of records; the rest of the word stays.

#include <memory>
#include <string>
#include <string_view>

#include "mvm/egress/event.h"
#include "mvm/protect/value.h"
#include "mvm/proto/network.h"
#include "mvm/secret/secrets.h"

namespace mvm::sandbox {

class Withholder {
 public:
  // In place of what is left out; fits hosts and paths.
  static constexpr std::string_view kWithheld = "withheld";

  // `secrets` may be null. Personal data is of every class, whatever becomes of it in traffic, and
  // of the user's own patterns.
  Withholder(std::shared_ptr<const secret::Secrets> secrets,
             const std::optional<proto::NetworkConfig>& config);

  egress::Event cleaned(egress::Event event);
  // Of those that the filters tell, the host is the one word that a guest may have chosen.
  template <typename Notice>
  Notice cleaned(Notice notice) {
    notice.host = host(notice.host);
    return notice;
  }
  std::string host(std::string_view name);
  // Whether it has a secret's value or personal data in it, or a token that stands for some.
  bool holds(std::string_view text);

 private:
  bool holds_secret(std::string_view text) const;
  std::string path(std::string_view target);
  std::string host_without_values(std::string_view name);

  std::shared_ptr<const secret::Secrets> secrets_;
  protect::ValueScanner scanner_;
  // The last host, and what became of it: an exchange has many records, and one host.
  std::string last_host_;
  std::string last_cleaned_;
};

}
