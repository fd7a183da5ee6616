// What leaves.

#include <algorithm>
#include <array>

#include "mvm/protect/restore.h"

#include "pii_filter.h"

namespace mvm::privacy {
namespace {

using egress::BodyUse;
using egress::FilterVerdict;
using protect::PiiClass;

// Fields that frame, route and negotiate: nobody writes personal data there, and what looks like
// some is none.
bool is_structural(std::string_view name) {
  static constexpr std::array kNames =
      std::to_array<std::string_view>({"host",
                                       "content-length",
                                       "transfer-encoding",
                                       "content-type",
                                       "content-encoding",
                                       "connection",
                                       "upgrade",
                                       "te",
                                       "trailer",
                                       "expect",
                                       "accept",
                                       "accept-charset",
                                       "accept-encoding",
                                       "accept-language",
                                       "cache-control",
                                       "date",
                                       "if-modified-since",
                                       "if-unmodified-since",
                                       "if-none-match",
                                       "if-match",
                                       "if-range",
                                       "range",
                                       "keep-alive",
                                       "access-control-request-method",
                                       "access-control-request-headers"});
  constexpr std::string_view kWebSocket = "sec-websocket-";
  return std::ranges::any_of(
             kNames, [&](std::string_view known) { return http::same_name(name, known); }) ||
         http::same_name(name.substr(0, kWebSocket.size()), kWebSocket);
}

// Fields whose business credentials are; the secrets of a sandbox are looked after elsewhere.
bool carries_credentials(std::string_view name) {
  static constexpr std::array kParts = std::to_array<std::string_view>(
      {"authorization", "cookie", "token", "key", "secret", "password", "signature", "credential"});
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return std::ranges::any_of(
      kParts, [&](std::string_view part) { return lower.find(part) != std::string::npos; });
}

bool is_credential(PiiClass kind) {
  return kind == PiiClass::Jwt || kind == PiiClass::PrivateKey || kind == PiiClass::ApiKey ||
         kind == PiiClass::HighEntropy;
}

egress::FilterRefusal refusal(policy::Reason reason, std::string rule, std::string message) {
  egress::FilterRefusal out;
  out.reason = reason;
  out.rule = std::move(rule);
  out.answer.status = 403;
  out.answer.reason = policy::reason_word(reason);
  out.answer.message = std::move(message);
  return out;
}

}

protect::Replace PiiFilter::replacer(std::string_view place, bool credentials) {
  return [this, place, credentials](const protect::Finding& finding,
                                    std::string_view value) -> std::optional<std::string> {
    if (!credentials && is_credential(finding.kind)) return std::nullopt;
    const std::string_view name =
        finding.kind == PiiClass::Custom ? finding.detail : class_name(finding.kind);
    switch (plan_.action(finding)) {
      case Action::Allow:
        return std::nullopt;
      case Action::Detect:
        note(Note::Kind::Detected, name, place);
        return std::nullopt;
      case Action::Tokenize:
        if (const auto* token = issue(finding.kind, value)) {
          note(Note::Kind::Tokenized, name, place);
          return *token;
        }
        break;  // more values than a flow may have: none of them leaves, and none comes back
      case Action::Redact:
        break;
      case Action::Deny:
        note(Note::Kind::Denied, name, place);
        if (denied_.empty()) {
          denied_ = name;
          denied_place_ = place;
        }
        return std::string(protect::kRedacted);
    }
    note(Note::Kind::Redacted, name, place);
    return std::string(protect::kRedacted);
  };
}

const std::string* PiiFilter::issue(PiiClass kind, std::string_view value) {
  const size_t before = tokens_->vault.generation();
  const std::string* token = tokens_->vault.token(kind, value, source_.clock_());
  if (token == nullptr || tokens_->vault.generation() == before) return token;
  source_.issued_ = true;
  source_.past_.add(*token, kind);
  tokens_->index.add(*token, kind);
  return token;
}

void PiiFilter::rewrite_target(std::string& target) {
  const size_t mark = target.find('?');
  const auto path = rewritten_url_text(scanner_, {}, std::string_view(target).substr(0, mark),
                                       protect::UrlText::Path, replacer("path"));
  std::optional<std::string> query;
  if (mark != std::string::npos)
    query = rewritten_pairs(scanner_, std::string_view(target).substr(mark + 1), replacer("query"));
  if (!path && !query) return;
  std::string out = path ? *path : target.substr(0, mark);
  if (mark != std::string::npos) out += "?" + (query ? *query : target.substr(mark + 1));
  target = std::move(out);
}

void PiiFilter::rewrite_fields(http::Headers& headers) {
  for (http::Header& header : headers) {
    if (is_structural(header.name)) continue;
    auto put = rewritten_url_text(scanner_, header.name, header.value, protect::UrlText::Header,
                                  replacer("header", !carries_credentials(header.name)));
    if (put) header.value = std::move(*put);
  }
}

FilterVerdict PiiFilter::request_head(http::RequestHead& head, BodyUse& body) {
  // What comes back has to be read.
  http::restrict_accept_encoding(head.headers);
  if (!plan_.looks()) return {};
  rewrite_target(head.target);
  rewrite_fields(head.headers);
  if (!denied_.empty()) return denied();
  if (http::find(head.headers, "upgrade") != nullptr)
    if (auto verdict = undecodable("what is said on a WebSocket is not read", "websocket"))
      return verdict;
  if (head.framing.kind == http::BodyKind::None) {
    tell();  // before it leaves: nothing of it comes by here again
    return {};
  }
  return prepare_body(head, body);
}

FilterVerdict PiiFilter::prepare_body(const http::RequestHead& head, BodyUse& body) {
  const auto codings = http::content_codings(head.headers);
  if (!codings) return undecodable("its Content-Encoding is not known");
  const std::string* type = http::find(head.headers, "content-type");
  const auto media = protect::parse_media_type(type == nullptr ? "" : *type);
  if (!media || http::count(head.headers, "content-type") > 1)
    return undecodable("its Content-Type is malformed");
  const protect::BodyRules rules{{plan_.looked_for(), source_.rules_.patterns},
                                 replacer("body"),
                                 [this] {
                                   note(Note::Kind::Undecodable, "part", "body");
                                   return source_.rules_.pass_undecodable;
                                 },
                                 source_.rules_.max_value};
  rewriter_ = protect::body_rewriter(*media, rules);
  if (!rewriter_) return undecodable("nothing is known of the text in a body of its Content-Type");
  request_ = coded(*codings);
  request_done_ = false;
  const bool changes =
      plan_.has(Action::Tokenize) || plan_.has(Action::Redact) || plan_.has(Action::Deny);
  body = changes ? BodyUse::Rewrite : BodyUse::Read;
  if (!changes) request_.encoder.reset();
  return {};
}

FilterVerdict PiiFilter::request_body(ByteView in, bool last, Bytes& out) {
  const auto rewrite = [&](std::string_view text, std::string& made) {
    return rewriter_->feed(text, made);
  };
  const Passed passed = pass(request_, in, rewrite, false, out);
  // Once some of it has been taken apart there is no way to let the rest pass.
  const auto unreadable = [&](const std::string& why) -> FilterVerdict {
    note(Note::Kind::Undecodable, "content", "body");
    tell();
    return refusal(policy::Reason::Unreadable, "pii.on_undecodable",
                   "the request's body cannot be looked into for personal data: " + why);
  };
  if (!denied_.empty()) return denied();
  if (passed == Passed::Damaged) return unreadable(std::string(request_.decoder->problem()));
  if (passed == Passed::Refused)
    return unreadable(
        "it is not what its Content-Type says, or one value is longer than pii.max_value");
  if (!last) return {};
  request_done_ = true;
  if (request_.decoder && !request_.decoder->whole())
    return unreadable("its content coding ends too early");
  std::string rest;
  if (!rewriter_->finish(rest)) return unreadable("it is not what its Content-Type says");
  if (!denied_.empty()) return denied();
  end(request_, rest, out);
  tell();
  return {};
}

FilterVerdict PiiFilter::request_trailers(http::Headers& trailers) {
  if (!plan_.looks()) return {};
  rewrite_fields(trailers);
  if (!denied_.empty()) return denied();
  tell();
  return {};
}

// What is looked for in the answer.
void PiiFilter::request_left() noexcept {
  source_.past_.file();
  if (!tokens_->index.empty()) static_cast<void>(tokens_->index.finder());
}

// Nothing: it may pass.
FilterVerdict PiiFilter::undecodable(const std::string& why, std::string_view what) {
  note(Note::Kind::Undecodable, what, "body");
  if (source_.rules_.pass_undecodable) return {};
  tell();
  return refusal(policy::Reason::Unreadable, "pii.on_undecodable",
                 "the request cannot be looked into for personal data: " + why +
                     "; pii.rules = [\"allow all at " + exchange_.host +
                     "\"] lets this host's pass unread, pii.on_undecodable = \"allow\" all");
}

FilterVerdict PiiFilter::denied() {
  tell();
  auto out =
      refusal(policy::Reason::PersonalData, "pii",
              "the request holds personal data (" + denied_ + ") in its " +
                  std::string(denied_place_) + ", which may not leave for " + exchange_.host);
  out.answer.details = {{"class", denied_}, {"place", std::string(denied_place_)}};
  return out;
}

}
