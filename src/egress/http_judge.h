#pragma once
// One HTTP request, held against the policy; and what the client is told when it is refused.

#include <optional>
#include <string>
#include <vector>

#include "mvm/http/refusal.h"
#include "mvm/http/target.h"

#include "judge.h"

namespace mvm::egress {

// The connection that a request came on.
struct HttpOrigin {
  std::optional<dns::Name> host;
  Endpoint to;
  bool tls = false;
  // Of plain HTTP: the names that this address was given for. The first request says which of them
  // is meant, and the others have to keep to it; see settle_host().
  std::vector<dns::Name> names;
  // Of the explicit proxy: its own address. Each request names its server, which is then above.
  std::optional<Endpoint> door;

  // What a certificate has to be for.
  std::string name() const { return host ? host->text() : to.address.text(); }
};

// Makes `head`'s authority the connection's host, if it is one of its names. Once.
void settle_host(HttpOrigin& origin, const http::RequestHead& head);

struct JudgedRequest {
  policy::Request request;
  Verdict verdict;
  std::string target;     // origin form, as it was judged; to be sent upstream
  bool nameless = false;  // as clients of HTTP/1.0 may be
};

// The target's authority has to be the connection's host and port, however it is written.
JudgedRequest judge_request(const Judge& judge, const HttpOrigin& origin,
                            const http::RequestHead& head);

// The same of a request to the explicit proxy, whose server has not been looked for yet: as far as
// its name or address says.
JudgedRequest judge_proxy_request(const Judge& judge, const Endpoint& door,
                                  const http::RequestHead& head);

// A request that cannot be read has no method and no path; that it came, and was not passed on, is
// told.
Event malformed_request(const HttpOrigin& origin, uint64_t flow, std::string detail = {});

// 403 with the reason and the flag that would admit the request.
http::Refusal refusal_of(const JudgedRequest& judged);
// 502 or 504: upstream could not be reached, or was not to be trusted.
http::Refusal failure_of(const HttpOrigin& origin, policy::Reason reason,
                         const std::string& detail);

}
