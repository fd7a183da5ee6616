// One exchange. Heads are changed as a whole (mvm/secret/head.h), bodies in a stream. A request's
// body is rewritten where a secret may be put into it, or where that costs no length; elsewhere it
// is only read, so that it keeps its Content-Length: of a value that comes in two pieces the first
// may then have left, and the rest never does.
//
// A coded request goes on as it is. It is searched as it is, because it need not be of the coding
// that it names, and decoded beside as far as that goes. A coded answer of a host that has secrets
// goes on decoded, which every client can read (RFC 9110 §12.5.3). Other hosts' coded answers are
// searched as they are: no value was ever sent there.

#include "mvm/guard/secret_filter.h"

#include <algorithm>
#include <map>
#include <optional>

#include "mvm/http/coding.h"
#include "mvm/http/refusal.h"
#include "mvm/secret/head.h"
#include "mvm/secret/stream.h"
#include "mvm/secret/text.h"

#include "form_fields.h"

namespace mvm::guard {
namespace {

using egress::BodyUse;
using egress::FilterRefusal;
using egress::FilterVerdict;
using policy::Reason;
using policy::SecretPlace;
using secret::Fault;
using secret::Finder;
using secret::Secrets;
using What = SecretNotice::What;

// gzip reaches 1032, and logs may well come near it; a search costs no memory.
constexpr http::DecodeLimits kRequestLimits{.ratio = 1100};

// Hands what `in` stands for to `take`, piece by piece, with what came before damage too. False: it
// cannot be decoded, or `take` said so.
template <typename Take>
bool decode(http::Decoder& decoder, ByteView in, bool last, const Take& take) {
  constexpr size_t kPiece = size_t{64} * 1024;
  Bytes piece;
  http::Decoder::Step step{};
  do {
    piece.clear();
    step = decoder.next(in, piece, kPiece);
    if (!take(as_text(piece)) || step == http::Decoder::Step::Bad) return false;
  } while (step == http::Decoder::Step::Full);
  return !last || decoder.whole();
}

void append(Bytes& out, std::string_view text) {
  const ByteView bytes = as_bytes(text);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

class SecretFilter : public egress::ExchangeFilter {
 public:
  SecretFilter(std::shared_ptr<const Secrets> secrets, const SecretSource::Watcher& watcher,
               const egress::Exchange& exchange)
      : secrets_(std::move(secrets)),
        watcher_(watcher),
        exchange_(exchange),
        reach_(secret::Reach::of(*secrets_, exchange.host, exchange.port, exchange.tls)) {}

  FilterVerdict request_head(http::RequestHead& head, BodyUse& body) override {
    const secret::HeadResult result = put_into_head(*secrets_, reach_, head);
    if (result.fault != Fault::None) return faulty(result);
    if (auto refusal = used(result.used)) return refusal;
    expect_required(result.used);
    // So that what comes back can be read.
    if (reach_.any()) {
      std::erase_if(head.headers, [](const http::Header& header) {
        return http::same_name(header.name, "Accept-Encoding");
      });
      head.headers.push_back({"Accept-Encoding", "identity"});
    }
    if (head.framing.kind == http::BodyKind::None) return missing();
    begin_request_body(head.headers);
    const auto codings = http::content_codings(head.headers);
    if (!codings || !codings->empty()) {
      if (codings) begin_decoded_request(*codings);
      put_.assign(put_.size(), false);
      fields_.reset();
      body = BodyUse::Read;
      return missing();
    }
    const bool keeps_length = head.framing.kind == http::BodyKind::Length && !puts_into_body_;
    body = keeps_length ? BodyUse::Read : BodyUse::Rewrite;
    return puts_into_body_ ? FilterVerdict{} : missing();
  }

  FilterVerdict request_body(ByteView in, bool last, Bytes& out) override {
    if (!request_) return {};
    if (!feed_request(as_text(in), last, out)) return std::move(verdict_);
    if (request_decoder_) return decoded_request(in, last);
    return last ? missing() : FilterVerdict{};
  }

  FilterVerdict request_trailers(http::Headers& trailers) override {
    const secret::HeadResult result = look_into_trailers(*secrets_, trailers);
    if (result.fault != Fault::None) return faulty(result);
    return {};
  }

  FilterVerdict interim_head(http::ResponseHead& head) override {
    mask(head);
    return record_masked();
  }

  FilterVerdict response_trailers(http::Headers& trailers) override {
    http::ResponseHead fields;
    fields.headers = std::move(trailers);
    mask(fields);
    trailers = std::move(fields.headers);
    return record_masked();
  }

  FilterVerdict response_head(http::ResponseHead& head, BodyUse& body) override {
    mask(head);
    if (auto refusal = record_masked()) return refusal;
    if (head.framing.kind == http::BodyKind::None) return {};
    const auto codings = http::content_codings(head.headers);
    if (!codings) {
      if (auto refusal = cannot_read(true)) return refusal;
    } else if (!codings->empty() && reach_.any()) {
      response_decoder_.emplace(*codings);
      std::erase_if(head.headers, [](const http::Header& header) {
        return http::same_name(header.name, "Content-Encoding");
      });
    }
    response_.emplace(
        secrets_->values(), [this](const Finder::Hit& hit, std::string_view, Bytes& to) {
          ++masked_[hit.id];
          append(to, secret::in_units(secrets_->all()[hit.id].placeholder, hit.units));
          return true;
        });
    body = BodyUse::Rewrite;
    return {};
  }

  FilterVerdict response_body(ByteView in, bool last, Bytes& out) override {
    if (!response_) return {};
    if (!response_decoder_) {
      response_->feed(as_text(in), last, out);
    } else {
      const bool fine = decode(*response_decoder_, in, last, [&](std::string_view text) {
        return response_->feed(text, false, out);
      });
      if (!fine) return cannot_read(false);
      if (last) response_->feed({}, true, out);
    }
    return last ? record_masked() : FilterVerdict{};
  }

  void ended(bool whole) noexcept override {
    static_cast<void>(whole);
    // There is nobody left to refuse; the log counts what it misses.
    static_cast<void>(record_masked());
  }

 private:
  void mask(http::ResponseHead& head) {
    std::vector<size_t> masked;
    mask_head(*secrets_, head, masked);
    for (const size_t index : masked) ++masked_[index];
  }

  // ---- what is told

  bool tell(What what, size_t index, uint64_t count = 1) const {
    return watcher_.record(notice(what, index, count));
  }
  SecretNotice notice(What what, size_t index, uint64_t count = 1) const {
    return {
        what, exchange_.flow, exchange_.host, exchange_.port, secrets_->all()[index].binding.name,
        count};
  }

  FilterRefusal refusal(unsigned status, Reason reason, size_t index,
                        const std::string& message) const {
    const std::string& name = secrets_->all()[index].binding.name;
    FilterRefusal out;
    out.reason = reason;
    out.rule = "secret:" + name;
    out.answer.status = status;
    out.answer.reason = policy::reason_word(reason);
    out.answer.message = message;
    out.answer.details = {{"host", exchange_.host}, {"secret", name}};
    return out;
  }

  FilterRefusal not_recorded(size_t index) const {
    return refusal(503, Reason::NotRecorded, index,
                   "the sandbox's audit log takes no records, so no secret is used");
  }

  FilterVerdict used(const std::vector<size_t>& indexes) {
    std::map<size_t, uint64_t> counts;
    for (const size_t index : indexes) ++counts[index];
    for (const auto& [index, count] : counts)
      if (!tell(What::Used, index, count)) return not_recorded(index);
    return {};
  }

  // Of those that no request may be without: all but what its head has.
  void expect_required(const std::vector<size_t>& in_head) {
    for (size_t i = 0; i < secrets_->all().size(); ++i)
      if (reach_.bound[i] && secrets_->all()[i].binding.require &&
          std::ranges::find(in_head, i) == in_head.end())
        required_.push_back(i);
  }
  FilterVerdict missing() const {
    for (const size_t index : required_)
      if (told_used_.empty() || !told_used_[index])
        return refusal(403, Reason::SecretRequired, index,
                       "requests to this host have to use secret " +
                           secrets_->all()[index].binding.name + ", and this one does not");
    return {};
  }

  FilterVerdict record_masked() noexcept {
    const auto counts = std::exchange(masked_, {});
    FilterVerdict out;
    for (const auto& [index, count] : counts)
      if (!tell(What::Masked, index, count)) out = not_recorded(index);
    return out;
  }

  // ---- what is wrong

  FilterRefusal faulty(const secret::HeadResult& result) {
    const secret::Secret& secret = secrets_->all()[result.secret];
    const std::string& name = secret.binding.name;
    if (result.fault == Fault::Leak) return leaked(result.secret, result.where);
    const SecretNotice told = notice(What::Misused, result.secret);
    const bool recorded = watcher_.record(told);
    if (secret.binding.end_on_misuse) watcher_.end(told);
    if (!recorded) return not_recorded(result.secret);
    std::string message = "the placeholder of secret " + name + " is in " + result.where;
    if (result.fault == Fault::Plaintext)
      message += ", and this connection is not encrypted";
    else if (!reach_.bound[result.secret])
      message += ", and the secret is not for this host";
    else
      message += ", where its rule does not let it be";
    return refusal(403, Reason::SecretMisuse, result.secret, message);
  }

  FilterRefusal leaked(size_t index, const std::string& where) {
    if (!tell(What::Leaked, index)) return not_recorded(index);
    return refusal(403, Reason::SecretLeak, index,
                   "the value of secret " + secrets_->all()[index].binding.name + " is in " +
                       where + "; the sandbox has only its placeholder to send");
  }

  // A coding that nobody knows, which a rule may let pass, or a body that is not of its coding:
  // what of it has passed cannot be called back.
  FilterVerdict cannot_read(bool may_pass) {
    for (size_t i = 0; i < secrets_->all().size(); ++i)
      if (reach_.bound[i] && !(may_pass && secrets_->all()[i].binding.pass_unreadable))
        return unreadable(i);
    return {};
  }
  FilterRefusal unreadable(size_t index) {
    if (!tell(What::Unreadable, index)) return not_recorded(index);
    return refusal(502, Reason::Unreadable, index,
                   "the answer's content coding cannot be undone, so it cannot be searched for "
                   "secret " +
                       secrets_->all()[index].binding.name);
  }

  // ---- the request's body

  void begin_request_body(const http::Headers& headers) {
    const std::string type = media_type(headers);
    writing_ = writing_of(type);
    put_.assign(secrets_->all().size(), false);
    told_used_ = told_inert_ = put_into_field_ = put_;
    for (size_t i = 0; i < put_.size(); ++i) {
      const bool form = reach_.may_use(*secrets_, i, SecretPlace::Form);
      put_[i] = reach_.may_use(*secrets_, i, SecretPlace::Body) || (form && type == kFormType);
      put_into_field_[i] = put_[i] || form;
    }
    puts_into_body_ = std::ranges::find(put_, true) != put_.end();
    begin(request_);
    if (std::ranges::find(put_into_field_, true) == put_into_field_.end()) return;
    fields_ = FormFields::begin(headers,
                                [this](std::string_view bytes, bool form, secret::Writing writing) {
                                  in_field_ = form;
                                  writing_ = writing;
                                  return request_->feed(bytes, false, *request_out_);
                                });
    puts_into_body_ = puts_into_body_ || fields_;
  }

  bool feed_request(std::string_view in, bool last, Bytes& out) {
    if (!fields_) return request_->feed(in, last, out);
    request_out_ = &out;
    return fields_->feed(in, last) && (!last || request_->feed({}, true, out));
  }

  void begin(std::optional<secret::Stream>& stream) {
    stream.emplace(secrets_->in_body(),
                   [this](const Finder::Hit& hit, std::string_view found, Bytes& out) {
                     return in_request_body(hit, found, out);
                   });
  }

  void begin_decoded_request(const std::vector<http::Coding>& codings) {
    request_decoder_.emplace(codings, kRequestLimits);
    begin(decoded_request_);
  }

  // What it stands for is only looked at.
  FilterVerdict decoded_request(ByteView in, bool last) {
    Bytes unused;
    const auto look = [&](std::string_view text, bool end) {
      unused.clear();
      return decoded_request_->feed(text, end, unused);
    };
    const bool fine = decode(*request_decoder_, in, last,
                             [&](std::string_view text) { return look(text, false); });
    if (fine && !last) return {};
    // What it gave may end in a value.
    if (!verdict_) look({}, true);
    if (verdict_) return std::move(verdict_);
    if (request_decoder_->outgrown()) return too_large();
    // What is no such coding is whatever the guest wants it to be; there is no end of those.
    request_decoder_.reset();
    return {};
  }

  FilterRefusal too_large() const {
    FilterRefusal out;
    out.reason = Reason::Unreadable;
    out.rule = "secret";
    out.answer.status = 413;
    out.answer.reason = policy::reason_word(out.reason);
    out.answer.message =
        "the request's body grows too much when decoded, so it cannot be searched for secrets";
    return out;
  }

  bool in_request_body(const Finder::Hit& hit, std::string_view found, Bytes& out) {
    const size_t index = Secrets::index_of(hit.id);
    if ((hit.id & Secrets::kPlaceholder) == 0) {
      verdict_ = leaked(index, "the body");
      return false;
    }
    const std::string_view value = secrets_->all()[index].value;
    const bool may_put = in_field_ ? put_into_field_[index] : put_[index];
    const bool put = may_put && (hit.units == secret::Units::Bytes || secret::is_ascii(value));
    std::vector<bool>& told = put ? told_used_ : told_inert_;
    if (!told[index] && !tell(put ? What::Used : What::Inert, index)) {
      verdict_ = not_recorded(index);
      return false;
    }
    told[index] = true;
    if (!put) {
      append(out, found);
      return true;
    }
    std::string letters = secret::written(value, writing_);
    std::string bytes = secret::in_units(letters, hit.units);
    append(out, bytes);
    secret::wipe(letters);
    secret::wipe(bytes);
    return true;
  }

  std::shared_ptr<const Secrets> secrets_;
  const SecretSource::Watcher& watcher_;
  egress::Exchange exchange_;
  secret::Reach reach_;

  std::optional<secret::Stream> request_;  // as it is
  std::optional<secret::Stream> decoded_request_;
  std::optional<http::Decoder> request_decoder_;
  secret::Writing writing_ = secret::Writing::Plain;
  std::vector<bool> put_;  // by secret: is put into this body
  bool puts_into_body_ = false;
  std::unique_ptr<FormFields> fields_;  // of a multipart form that a secret may be put into
  std::vector<bool> put_into_field_;    // by secret, as put_
  bool in_field_ = false;               // what is fed is of a field
  Bytes* request_out_ = nullptr;        // while it is fed
  std::vector<size_t> required_;        // and not in the head
  std::vector<bool> told_used_;
  std::vector<bool> told_inert_;
  FilterVerdict verdict_;

  std::optional<secret::Stream> response_;
  std::optional<http::Decoder> response_decoder_;
  std::map<size_t, uint64_t> masked_;  // not yet told
};

}

SecretSource::SecretSource(std::shared_ptr<const Secrets> secrets, Watcher watcher)
    : secrets_(std::move(secrets)), watcher_(std::move(watcher)) {}

std::optional<std::string> SecretSource::rule_of_name(const std::string& name) const {
  const auto index = secrets_->in_name(name);
  if (!index) return std::nullopt;
  return "secret:" + secrets_->all()[*index].binding.name;
}

std::unique_ptr<egress::ExchangeFilter> SecretSource::begin(const egress::Exchange& exchange) {
  if (secrets_->empty()) return nullptr;
  return std::make_unique<SecretFilter>(secrets_, watcher_, exchange);
}

}
