#include "endpoint.h"

#include <algorithm>
#include <map>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/http/url.h"
#include "mvm/json/json.h"
#include "mvm/oci/reference.h"
#include "mvm/registry/registry.h"

namespace mvm::registry {

static constexpr size_t kMaxErrorBody = 16 * 1024;
static constexpr size_t kMaxToken = 64 * 1024;
static constexpr std::string_view kBearer = "Bearer ";

// What came back where it was not the content asked for.
struct Endpoint::Answer {
  unsigned status = 0;
  std::string location;
  std::string challenge;
  std::string body;
  bool taken() const { return status == 200 || status == 206; }
};

// Parameters of a challenge: key="value", … (RFC 9110, section 11.2).
static std::map<std::string, std::string> parameters_of(std::string_view text) {
  std::map<std::string, std::string> parameters;
  while (!text.empty()) {
    const size_t start = text.find_first_not_of(" ,");
    if (start == text.npos) break;
    text.remove_prefix(start);
    const size_t equals = text.find('=');
    if (equals == text.npos) break;
    const std::string key(text.substr(0, equals));
    text.remove_prefix(equals + 1);
    const bool quoted = text.starts_with('"');
    if (quoted) text.remove_prefix(1);
    const size_t end = std::min(text.find(quoted ? '"' : ','), text.size());
    parameters[key] = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parameters;
}

// {"errors": [{"code": …, "message": …}]}
static std::string told_by(const std::string& body) {
  const auto json = json::parse_object(body);
  if (!json || !json->contains("errors")) return "";
  const json::Value& errors = json->at("errors");
  if (!errors.is_array() || errors.empty() || !errors[0].is_object()) return "";
  const json::Value& first = errors[0];
  for (const char* key : {"message", "code"})
    if (first.contains(key) && first[key].is_string())
      return ": " + printable(first[key].get<std::string>(), 120);
  return "";
}

Endpoint::Endpoint(Url base, std::string known_as, std::string repository,
                   const Transport& transport, Lookup credentials)
    : base_(std::move(base)),
      known_as_(std::move(known_as)),
      repository_(std::move(repository)),
      transport_(transport),
      credentials_(std::move(credentials)) {}

Endpoint::Answer Endpoint::ask(const Url& url, const http::Headers& headers,
                               const Transport::Sink& sink) {
  Answer answer;
  transport_.get(url, headers,
                 {[&](const http::ResponseHead& head) {
                    answer.status = head.status;
                    if (const auto* value = http::find(head.headers, "Location"))
                      answer.location = *value;
                    if (const auto* value = http::find(head.headers, "WWW-Authenticate"))
                      answer.challenge = *value;
                    return !answer.taken() || sink.head(head);
                  },
                  [&](ByteView piece) {
                    if (answer.taken()) return sink.body(piece);
                    if (answer.body.size() + piece.size() > kMaxErrorBody) return false;
                    answer.body += as_text(piece);
                    return true;
                  }});
  return answer;
}

// `secret` is an Authorization for the first host; others never see it.
Endpoint::Answer Endpoint::follow(Url url, const http::Headers& headers, const std::string& secret,
                                  const Transport::Sink& sink) {
  const std::string first = url.origin();
  for (int hops = 0; hops <= kMaxRedirects; ++hops) {
    http::Headers all = headers;
    if (!secret.empty() && url.origin() == first) all.push_back({"Authorization", secret});
    Answer answer = ask(url, all, sink);
    const bool redirect = answer.status == 301 || answer.status == 302 || answer.status == 303 ||
                          answer.status == 307 || answer.status == 308;
    if (!redirect) return answer;
    Url next = while_doing("registry " + url.host + ": a redirect",
                           [&] { return resolve_url(url, answer.location); });
    if (url.tls && !next.tls)
      throw Error(Kind::Denied, "registry " + url.host + ": it redirects from TLS to " +
                                    next.origin() + ", which is refused");
    url = std::move(next);
  }
  throw Error(Kind::Invalid, "registry " + base_.host + ": more than " +
                                 std::to_string(kMaxRedirects) + " redirects");
}

void Endpoint::get(const std::string& rest, const http::Headers& headers,
                   const Transport::Sink& sink) {
  Url url = base_;
  if (url.target.ends_with('/')) url.target.pop_back();
  url.target += "/v2/" + repository_ + "/" + rest;
  std::string secret;
  {
    const std::lock_guard lock(mutex_);
    secret = authorization_;
  }
  Answer answer = follow(url, headers, secret, sink);
  if (answer.status == 401) {
    // No token yet, or one that has run out.
    {
      const std::lock_guard lock(mutex_);
      if (authorization_ == secret) authenticate(answer.challenge);
      secret = authorization_;
    }
    answer = follow(url, headers, secret, sink);
  }
  if (!answer.taken()) refuse(answer, rest);
}

void Endpoint::refuse(const Answer& answer, const std::string& what) const {
  const std::string shown = "registry " + base_.host + ": ";
  const std::string why = " (status " + std::to_string(answer.status) + told_by(answer.body) + ")";
  switch (answer.status) {
    case 401:
    case 403:
      throw Error(Kind::Denied, shown + "it does not let us read " + repository_ +
                                    "; log in with docker or podman login, or see whether the "
                                    "name is right" +
                                    why);
    case 404:
      throw Error(Kind::NotFound, shown + "there is no " + repository_ + "/" + what + why);
    case 429:
      throw Error(Kind::Unavailable, shown + "it has had too many requests from here" + why);
    default:
      if (answer.status >= 500) throw Error(Kind::Unavailable, shown + "it has a fault" + why);
      throw Error(Kind::Invalid, shown + "an answer that makes no sense" + why);
  }
}

// RFC 6750 tokens as Docker's registries hand them out (distribution: spec/auth/token), or RFC 7617
// passwords.
void Endpoint::authenticate(const std::string& challenge) {
  const auto credentials = credentials_ ? credentials_(known_as_) : std::nullopt;
  const std::string_view text = challenge;
  const std::string_view scheme = text.substr(0, text.find(' '));
  const std::string basic =
      credentials ? "Basic " + base64(credentials->user + ":" + credentials->password) : "";
  if (http::same_name(scheme, "Basic")) {
    if (basic.empty())
      throw Error(Kind::Denied, "registry " + base_.host +
                                    ": it wants a password; log in with docker or podman login");
    authorization_ = basic;
    return;
  }
  if (!http::same_name(scheme, "Bearer"))
    throw Error(Kind::Denied, "registry " + base_.host + ": it wants authentication of a kind " +
                                  "that is not known: " + printable(scheme, 40));
  const auto parameters = parameters_of(text.substr(std::min(scheme.size() + 1, text.size())));
  const auto value = [&](const char* key) {
    const auto found = parameters.find(key);
    return found == parameters.end() ? std::string() : found->second;
  };
  Url realm = while_doing("registry " + base_.host + ": its token service",
                          [&] { return parse_url(value("realm")); });
  if (base_.tls && !realm.tls)
    throw Error(Kind::Denied, "registry " + base_.host + ": its token service " + realm.origin() +
                                  " is without TLS, which is refused");
  // The scope is ours to say: what we are about to do and nothing more.
  realm.target += (realm.target.find('?') == std::string::npos ? "?" : "&") +
                  std::string("scope=") +
                  http::percent_encode("repository:" + repository_ + ":pull");
  if (const std::string service = value("service"); !service.empty())
    realm.target += "&service=" + http::percent_encode(service);
  authorization_ = std::string(kBearer) + fetch_token(realm, credentials);
}

std::string Endpoint::fetch_token(const Url& realm, const std::optional<Credentials>& credentials) {
  std::string body;
  const Transport::Sink sink{
      [](const http::ResponseHead&) { return true; },
      [&](ByteView piece) {
        if (body.size() + piece.size() > kMaxToken)
          throw Error(Kind::Invalid, "token service " + realm.host + ": its answer is too large");
        body += as_text(piece);
        return true;
      }};
  const std::string secret =
      credentials ? "Basic " + base64(credentials->user + ":" + credentials->password) : "";
  const Answer answer = follow(realm, {{"Accept", "application/json"}}, secret, sink);
  if (!answer.taken()) refuse(answer, "token");
  const auto json = json::parse_object(body);
  for (const char* key : {"token", "access_token"}) {
    if (!json || !json->contains(key) || !json->at(key).is_string()) continue;
    const auto& token = json->at(key).get_ref<const std::string&>();
    if (http::is_field_value(token)) return token;
  }
  throw Error(Kind::Invalid, "token service " + realm.host + ": its answer holds no token");
}

}
