#pragma once
// One repository at one registry or mirror: requests with redirects and authentication.

#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "mvm/registry/credentials.h"
#include "mvm/registry/transport.h"

namespace mvm::registry {

class Endpoint {
 public:
  using Lookup = std::function<std::optional<Credentials>(std::string_view host)>;

  // `known_as` is the host that credentials are kept under.
  Endpoint(Url base, std::string known_as, std::string repository, const Transport& transport,
           Lookup credentials);

  // A GET of /v2/<repository>/<rest>. `sink` sees the final answer alone, which has status 200 or
  // 206. Throws Error: Denied, NotFound, Unavailable (worth another try), Invalid.
  void get(const std::string& rest, const http::Headers& headers, const Transport::Sink& sink);
  const Url& base() const { return base_; }

 private:
  struct Answer;
  Answer ask(const Url& url, const http::Headers& headers, const Transport::Sink& sink);
  Answer follow(Url url, const http::Headers& headers, const std::string& secret,
                const Transport::Sink& sink);
  void authenticate(const std::string& challenge);
  std::string fetch_token(const Url& realm, const std::optional<Credentials>& credentials);
  [[noreturn]] void refuse(const Answer& answer, const std::string& what) const;

  Url base_;
  std::string known_as_;
  std::string repository_;
  const Transport& transport_;
  Lookup credentials_;
  std::mutex mutex_;           // guards what follows; downloads share an endpoint
  std::string authorization_;  // value of the header; empty: none yet
};

}
