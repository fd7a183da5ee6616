#include "mvm/secret/head.h"

#include <algorithm>

#include "mvm/secret/text.h"

namespace mvm::secret {
namespace {

using policy::SecretPlace;

// Walks through what is found in `text` and puts what `replace` says in its place.
template <typename Replace>
void replace_hits(const Finder& finder, std::string& text, const Replace& replace) {
  Finder::Hit hit = finder.find(text, 0, true);
  if (hit.kind != Finder::Hit::Kind::Whole) return;
  std::string out;
  size_t passed = 0;
  for (; hit.kind == Finder::Hit::Kind::Whole; hit = finder.find(text, passed, true)) {
    out.append(text, passed, hit.at - passed);
    if (!replace(hit, out)) return;
    passed = hit.at + hit.length;
  }
  out.append(text, passed);
  text = std::move(out);
}

class Put {
 public:
  Put(const Secrets& secrets, const Reach& reach) : secrets_(secrets), reach_(reach) {}

  HeadResult run(http::RequestHead& head) {
    // Nothing belongs here.
    plain(head.method, {"the method"}, {});
    target(head.target, head.target_sensitive);
    for (http::Header& header : head.headers) {
      if (failed()) break;
      plain(header.name, {"a field's name"}, {});
      const size_t used = result_.used.size();
      if (!failed()) field(header);
      header.sensitive = header.sensitive || result_.used.size() > used;
    }
    if (!failed()) refuse_doubles(head.headers);
    return std::move(result_);
  }

  HeadResult trailers(http::Headers fields) {
    for (http::Header& field : fields) {
      const Place where{"a trailer"};
      plain(field.name, where, {});
      if (!failed() && !basic(field, where, {})) plain(field.value, where, {});
      if (failed()) break;
    }
    return std::move(result_);
  }

 private:
  // In words for people, which hardly anybody will read.
  struct Place {
    std::string_view text;
    const http::Header* field = nullptr;
    std::string words() const {
      if (field != nullptr && policy::is_credential_field(field->name))
        return "the field " + field->name;
      return std::string(text);
    }
  };
  struct Use {
    SecretPlace place;
    Writing writing;
    const http::Header* header = nullptr;
  };

  bool failed() const { return result_.fault != Fault::None; }
  bool fail(Fault fault, size_t secret, const Place& where) {
    result_.fault = fault;
    result_.secret = secret;
    result_.where = where.words();
    return false;
  }

  // `use`: what a placeholder here would be; nothing where none may be.
  void plain(std::string& text, const Place& where, const std::optional<Use>& use) {
    replace_hits(secrets_.in_head(), text, [&](const Finder::Hit& hit, std::string& out) {
      return put(hit, where, use, out);
    });
  }

  bool put(const Finder::Hit& hit, const Place& where, const std::optional<Use>& use,
           std::string& out) {
    const size_t index = Secrets::index_of(hit.id);
    if ((hit.id & Secrets::kPlaceholder) == 0) return fail(Fault::Leak, index, where);
    const Secret& secret = secrets_.all()[index];
    const bool exact = hit.units == Units::Bytes &&
                       (hit.form == Form::Plain ||
                        (use && use->writing == Writing::Percent && hit.form == Form::Escaped));
    if (!use || !exact || !reach_.bound[index] || !secret.binding.has(use->place) ||
        (use->header != nullptr && !may_hold(secret.binding, *use->header, hit.at)))
      return fail(Fault::Misuse, index, where);
    if (!reach_.tls && !secret.binding.plaintext) return fail(Fault::Plaintext, index, where);
    out += written(secret.value, use->writing);
    result_.used.push_back(index);
    return true;
  }

  // `at`: where in its value the placeholder begins.
  static bool may_hold(const policy::SecretBinding& binding, const http::Header& header,
                       size_t at) {
    if (binding.headers.empty()) return policy::is_credential_field(header.name);
    return std::ranges::any_of(binding.headers, [&](const policy::SecretHeader& allowed) {
      if (!http::same_name(allowed.name, header.name)) return false;
      if (allowed.scheme.empty()) return true;
      std::string_view before = std::string_view(header.value).substr(0, at);
      if (!before.ends_with(' ')) return false;
      while (before.ends_with(' ')) before.remove_suffix(1);
      return http::same_name(before, allowed.scheme);
    });
  }

  void target(std::string& text, bool& sensitive) {
    if (failed()) return;
    const size_t used = result_.used.size();
    const size_t mark = std::min(text.find('?'), text.size());
    std::string path = text.substr(0, mark);
    std::string query = text.substr(mark);
    plain(path, {"the path"}, Use{SecretPlace::UrlPath, Writing::Percent});
    if (!failed()) plain(query, {"the query"}, Use{SecretPlace::Query, Writing::Percent});
    text = path + query;
    sensitive = sensitive || result_.used.size() > used;
  }

  void field(http::Header& header) {
    const Place where{"a header field", &header};
    if (basic(header, where, Use{SecretPlace::Basic, Writing::Plain})) return;
    plain(header.value, where, Use{SecretPlace::Header, Writing::Plain, &header});
  }

  // RFC 7617. True: it was Basic credentials, and all is done.
  bool basic(http::Header& header, const Place& where, const std::optional<Use>& use) {
    if (!http::same_name(header.name, "Authorization")) return false;
    const std::string_view value = header.value;
    const size_t blank = value.find(' ');
    if (blank == value.npos || !http::same_name(value.substr(0, blank), "Basic")) return false;
    const size_t start = value.find_first_not_of(' ', blank);
    auto credentials =
        base64_decode(start == value.npos ? std::string_view() : value.substr(start));
    if (!credentials) return false;
    const size_t used = result_.used.size();
    plain(*credentials, where, use);
    if (!failed() && result_.used.size() > used) {
      header.value = "Basic " + base64(*credentials);
      wipe(*credentials);
      return true;
    }
    wipe(*credentials);
    return failed();
  }

  // Of two fields of one name a server may take either, and show the other.
  void refuse_doubles(const http::Headers& headers) {
    for (const http::Header& header : headers) {
      const auto hit = secrets_.values().find(header.value, 0, true);
      if (hit.kind != Finder::Hit::Kind::Whole || http::count(headers, header.name) == 1) continue;
      fail(Fault::Misuse, Secrets::index_of(hit.id), {"a field that is there twice"});
      return;
    }
  }

  const Secrets& secrets_;
  const Reach& reach_;
  HeadResult result_;
};

}

Reach Reach::of(const Secrets& secrets, const std::string& host, uint16_t port, bool tls) {
  Reach reach{std::vector<bool>(secrets.all().size()), tls};
  const auto name = dns::Name::parse(host);
  if (!name || IpAddress::parse(host)) return reach;
  for (size_t i = 0; i < secrets.all().size(); ++i)
    reach.bound[i] = secrets.all()[i].binding.covers(*name, port);
  return reach;
}

bool Reach::any() const noexcept { return std::ranges::find(bound, true) != bound.end(); }

bool Reach::may_use(const Secrets& secrets, size_t secret, SecretPlace place) const noexcept {
  const policy::SecretBinding& binding = secrets.all()[secret].binding;
  return bound[secret] && binding.has(place) && (tls || binding.plaintext);
}

HeadResult put_into_head(const Secrets& secrets, const Reach& reach, http::RequestHead& head) {
  return Put(secrets, reach).run(head);
}

HeadResult look_into_trailers(const Secrets& secrets, const http::Headers& trailers) {
  return Put(secrets, {}).trailers(trailers);
}

void mask_head(const Secrets& secrets, http::ResponseHead& head, std::vector<size_t>& masked) {
  const auto mask = [&](std::string& text) {
    replace_hits(secrets.values(), text, [&](const Finder::Hit& hit, std::string& out) {
      out += secrets.all()[hit.id].placeholder;
      masked.push_back(hit.id);
      return true;
    });
  };
  mask(head.reason);
  for (http::Header& header : head.headers) {
    mask(header.name);
    mask(header.value);
  }
}

}
