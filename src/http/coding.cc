// Theory of operation. Each coding of a list is a stage, with a buffer of kBuffer bytes behind it
// that the next one reads. A stage runs when its buffer is empty; the last one's goes to the
// caller. So nothing waits but a buffer a stage and what the libraries keep (their windows).

#include "mvm/http/coding.h"

#include <algorithm>
#include <string>

#include "coding_stage.h"
#include "fields.h"

namespace mvm::http {
namespace {

constexpr size_t kBuffer = size_t{16} * 1024;

std::optional<Coding> coding_from_name(std::string_view name) {
  if (same_name(name, "gzip") || same_name(name, "x-gzip")) return Coding::Gzip;
  if (same_name(name, "deflate")) return Coding::Deflate;
  if (same_name(name, "br")) return Coding::Brotli;
  if (same_name(name, "zstd")) return Coding::Zstd;
  return std::nullopt;
}

std::unique_ptr<DecodeStage> decode_stage(Coding coding) {
  switch (coding) {
    case Coding::Gzip:
      return gzip_decoder();
    case Coding::Deflate:
      return deflate_decoder();
    case Coding::Brotli:
      return brotli_decoder();
    case Coding::Zstd:
      return zstd_decoder();
  }
  return nullptr;
}

std::unique_ptr<EncodeStage> encode_stage(Coding coding) {
  switch (coding) {
    case Coding::Gzip:
      return gzip_encoder();
    case Coding::Deflate:
      return deflate_encoder();
    case Coding::Brotli:
      return brotli_encoder();
    case Coding::Zstd:
      return zstd_encoder();
  }
  return nullptr;
}

std::string_view damage(Coding coding) {
  switch (coding) {
    case Coding::Gzip:
      return "its gzip data is damaged";
    case Coding::Deflate:
      return "its deflate data is damaged";
    case Coding::Brotli:
      return "its br data is damaged";
    case Coding::Zstd:
      return "its zstd data is damaged, or needs a window of more than 8 MiB";
  }
  return "";
}

// Each item of a comma-separated list, trimmed.
template <typename Use>
void each_item(std::string_view list, const Use& use) {
  while (true) {
    const size_t comma = list.find(',');
    if (const std::string_view item = trimmed(list.substr(0, comma)); !item.empty()) use(item);
    if (comma == std::string_view::npos) return;
    list.remove_prefix(comma + 1);
  }
}

}

std::string_view coding_name(Coding coding) noexcept {
  switch (coding) {
    case Coding::Gzip:
      return "gzip";
    case Coding::Deflate:
      return "deflate";
    case Coding::Brotli:
      return "br";
    case Coding::Zstd:
      return "zstd";
  }
  return "";
}

std::optional<std::vector<Coding>> content_codings(const Headers& headers) {
  std::vector<Coding> codings;
  bool known = true;
  for (const Header& header : headers) {
    if (!same_name(header.name, "content-encoding")) continue;
    each_item(header.value, [&](std::string_view item) {
      if (same_name(item, "identity")) return;
      const auto coding = coding_from_name(item);
      known = known && coding && codings.size() < kMaxCodings;
      if (known) codings.push_back(*coding);
    });
  }
  if (!known) return std::nullopt;
  return codings;
}

void restrict_accept_encoding(Headers& headers) {
  for (Header& header : headers) {
    if (!same_name(header.name, "accept-encoding")) continue;
    std::string kept;
    each_item(header.value, [&](std::string_view item) {
      const std::string_view name = trimmed(item.substr(0, item.find(';')));
      if (!coding_from_name(name) && !same_name(name, "identity")) return;
      kept += (kept.empty() ? "" : ", ") + std::string(item);
    });
    header.value = kept.empty() ? "identity" : kept;
  }
}

// ---- decoding

struct Decoder::Stage {
  Coding coding;
  std::unique_ptr<DecodeStage> codec;
  Bytes buffer;
  ByteView ready;  // of the buffer
  bool damaged = false;
};

Decoder::Decoder(const std::vector<Coding>& codings, const DecodeLimits& limits) : limits_(limits) {
  for (size_t i = codings.size(); i-- > 0;)
    stages_.push_back({codings[i], decode_stage(codings[i]), Bytes(kBuffer), {}, false});
}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

// False when nothing moved.
bool Decoder::feed(Stage& stage, ByteView& input) {
  const size_t before = input.size();
  std::span<std::byte> space(stage.buffer);
  if (!stage.codec->run(input, space)) {
    stage.damaged = true;
    if (problem_.empty()) problem_ = damage(stage.coding);
  }
  stage.ready = ByteView(stage.buffer).first(stage.buffer.size() - space.size());
  grown_ += stage.ready.size();
  return !stage.ready.empty() || input.size() != before;
}

Decoder::Step Decoder::next(ByteView& input, Bytes& out, size_t room) {
  if (outgrown_) return Step::Bad;
  if (stages_.empty()) {
    const size_t take = std::min(room, input.size());
    out.insert(out.end(), input.begin(), input.begin() + static_cast<ptrdiff_t>(take));
    input = input.subspan(take);
    return input.empty() ? Step::More : Step::Full;
  }
  ByteView& last = stages_.back().ready;
  while (true) {
    const size_t give = std::min(room, last.size());
    out.insert(out.end(), last.begin(), last.begin() + static_cast<ptrdiff_t>(give));
    last = last.subspan(give);
    room -= give;
    if (room == 0) return Step::Full;
    bool moved = false;
    for (size_t i = 0; i < stages_.size(); ++i) {
      if (!stages_[i].ready.empty() || stages_[i].damaged) continue;
      ByteView& from = i == 0 ? input : stages_[i - 1].ready;
      const size_t before = from.size();
      moved = feed(stages_[i], from) || moved;
      if (i == 0) taken_ += before - from.size();
    }
    if (grown_ > limits_.allowance + limits_.ratio * taken_) {
      outgrown_ = true;
      if (problem_.empty()) problem_ = "its data grows too much when decoded";
      return Step::Bad;
    }
    // What came before the damage has been given then.
    if (!moved) return problem_.empty() ? Step::More : Step::Bad;
  }
}

bool Decoder::whole() const noexcept {
  return problem_.empty() && std::ranges::all_of(stages_, [](const Stage& stage) {
           return stage.ready.empty() && stage.codec->may_end();
         });
}

// ---- encoding

struct Encoder::Stage {
  std::unique_ptr<EncodeStage> codec;
};

Encoder::Encoder(const std::vector<Coding>& codings) {
  for (const Coding coding : codings) stages_.push_back({encode_stage(coding)});
}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder&&) noexcept = default;

void Encoder::run(ByteView in, EncodeEnd end, Bytes& out) {
  Bytes from;
  Bytes to;
  for (Stage& stage : stages_) {
    to.clear();
    bool done = false;
    while (!done) {
      const size_t used = to.size();
      to.resize(used + kBuffer);
      auto space = std::span(to).subspan(used);
      done = stage.codec->run(in, end, space);
      to.resize(to.size() - space.size());
    }
    from.swap(to);
    in = from;
  }
  out.insert(out.end(), in.begin(), in.end());
}

void Encoder::write(ByteView in, bool flush, Bytes& out) {
  run(in, flush ? EncodeEnd::Flush : EncodeEnd::Open, out);
}
void Encoder::finish(Bytes& out) { run({}, EncodeEnd::Finish, out); }

}
