#include "mvm/meter/journal.h"

#include <algorithm>

#include "crc32.h"

namespace mvm::meter {
namespace {

constexpr std::string_view kMagic = "mvmai 1\n";
// Beside the values of RecordKind. The older one has no operations, and budgets of the whole alone.
constexpr uint8_t kSnapshot = 0x81;
constexpr uint8_t kFormerSnapshot = 0x80;

void frame(Bytes& out, const Bytes& payload) {
  Writer writer(out);
  writer.u32(static_cast<uint32_t>(payload.size()));
  writer.bytes(payload);
  writer.u32(crc32(0, as_text(payload)));
}

void put(Writer& out, const std::optional<uint64_t>& value) {
  out.u8(value ? 1 : 0);
  out.u64(value.value_or(0));
}

std::optional<uint64_t> take(Reader& in) {
  const bool there = in.u8() != 0;
  const uint64_t value = in.u64();
  return there ? std::optional(value) : std::nullopt;
}

void put(Writer& out, const std::string& text) {
  out.u8(static_cast<uint8_t>(text.size()));
  out.text(text);
}

std::string take_model(Reader& in) {
  const std::string_view text = as_text(in.bytes(in.u8()));
  return clean_model(text);
}

Provider take_provider(Reader& in) {
  const uint8_t value = in.u8();
  if (value >= kProviders) in.fail();
  return value < kProviders ? static_cast<Provider>(value) : Provider::OpenAi;
}

void put(Writer& out, const Bounds& bounds) {
  out.u64(bounds.input);
  out.u64(bounds.output);
}

Bounds take_bounds(Reader& in) {
  Bounds bounds;
  bounds.input = in.u64();
  bounds.output = in.u64();
  return bounds;
}

void put(Writer& out, const Budget& budget) {
  for (const auto& limit : {budget.total_tokens, budget.input_tokens, budget.output_tokens,
                            budget.requests, budget.cost})
    put(out, limit);
}

Budget take_budget(Reader& in) {
  Budget budget;
  for (auto* limit : {&budget.total_tokens, &budget.input_tokens, &budget.output_tokens,
                      &budget.requests, &budget.cost})
    *limit = take(in);
  return budget;
}

constexpr std::array kUsageFields{&Usage::input,       &Usage::output,        &Usage::total,
                                  &Usage::cached,      &Usage::cache_written, &Usage::reasoning,
                                  &Usage::audio_input, &Usage::audio_output};
constexpr std::array kCountFields{&Counts::requests,    &Counts::unknown,       &Counts::refused,
                                  &Counts::input,       &Counts::output,        &Counts::total,
                                  &Counts::cached,      &Counts::cache_written, &Counts::reasoning,
                                  &Counts::audio_input, &Counts::audio_output,  &Counts::estimated,
                                  &Counts::cost,        &Counts::unpriced};
constexpr std::array kPartFields{&Counts::Part::reported, &Counts::Part::input,
                                 &Counts::Part::output};
constexpr std::array kSpentFields{&Spent::total, &Spent::input,   &Spent::output,  &Spent::requests,
                                  &Spent::cost,  &Spent::unknown, &Spent::unpriced};

Bytes snapshot(const Account& account) {
  Bytes payload;
  Writer out(payload);
  out.u8(kSnapshot);
  out.u64(account.next);
  out.u8(account.budget ? 1 : 0);
  put(out, account.budget.value_or(Budget{}));
  for (const auto field : kSpentFields) out.u64(account.spent.*field);
  out.u8(account.run_budget ? 1 : 0);
  put(out, account.run_budget.value_or(Budget{}));
  out.u8(static_cast<uint8_t>(account.provider_budgets.size()));
  for (const auto& [provider, budget] : account.provider_budgets) {
    out.u8(static_cast<uint8_t>(provider));
    put(out, budget);
  }
  out.u8(static_cast<uint8_t>(account.spent_by.size()));
  for (const auto& [provider, spent] : account.spent_by) {
    out.u8(static_cast<uint8_t>(provider));
    for (const auto field : kSpentFields) out.u64(spent.*field);
  }
  out.u32(static_cast<uint32_t>(account.series.size()));
  for (const auto& [name, counts] : account.series) {
    out.u8(static_cast<uint8_t>(name.first));
    put(out, name.second);
    for (const auto field : kCountFields) out.u64(counts.*field);
    for (const Counts::Part& part : counts.parts)
      for (const auto field : kPartFields) out.u64(part.*field);
  }
  out.u32(static_cast<uint32_t>(account.open.size()));
  for (const auto& [id, request] : account.open) {
    out.u64(id);
    out.u8(static_cast<uint8_t>(request.provider));
    put(out, request.bounds);
  }
  out.u32(static_cast<uint32_t>(account.once.size()));
  for (const uint64_t key : account.once) out.u64(key);
  return payload;
}

void read_scopes(Reader& in, Account& account) {
  const bool set = in.u8() != 0;
  const Budget each_run = take_budget(in);
  if (set) account.run_budget = each_run;
  for (uint8_t left = in.u8(); left > 0 && in; --left) {
    const Provider provider = take_provider(in);
    account.provider_budgets[provider] = take_budget(in);
  }
  for (uint8_t left = in.u8(); left > 0 && in; --left) {
    Spent& spent = account.spent_by[take_provider(in)];
    for (const auto field : kSpentFields) spent.*field = in.u64();
  }
}

std::optional<Account> read_snapshot(Reader& in, bool former) {
  Account account;
  account.next = in.u64();
  const bool set = in.u8() != 0;
  const Budget budget = take_budget(in);
  if (set) account.budget = budget;
  for (const auto field : kSpentFields) account.spent.*field = in.u64();
  if (!former) read_scopes(in, account);
  const uint32_t series = in.u32();
  if (series > Account::kMaxSeries + kProviders) return std::nullopt;
  for (uint32_t i = 0; i < series && in; ++i) {
    const Provider provider = take_provider(in);
    const std::string model = take_model(in);
    Counts& counts = account.series[{provider, model}];
    for (const auto field : kCountFields) counts.*field = in.u64();
    if (former)
      counts.parts.back() = {counts.requests - std::min(counts.unknown, counts.requests),
                             counts.input, counts.output};
    else
      for (Counts::Part& part : counts.parts)
        for (const auto field : kPartFields) part.*field = in.u64();
  }
  const uint32_t open = in.u32();
  if (open > Account::kMaxOpen) return std::nullopt;
  for (uint32_t i = 0; i < open && in; ++i) {
    const uint64_t id = in.u64();
    const Provider provider = take_provider(in);
    account.open[id] = {provider, take_bounds(in)};
  }
  const uint32_t once = in.u32();
  if (once > Account::kMaxOnce) return std::nullopt;
  for (uint32_t i = 0; i < once && in; ++i) account.once.push_back(in.u64());
  if (!in || in.remaining() != 0) return std::nullopt;
  return account;
}

std::optional<Record> read_record(uint8_t kind, Reader& in) {
  if (kind > static_cast<uint8_t>(RecordKind::SetRunBudget)) return std::nullopt;
  Record record;
  record.kind = static_cast<RecordKind>(kind);
  record.id = in.u64();
  record.provider = take_provider(in);
  switch (record.kind) {
    case RecordKind::Begin:
    case RecordKind::Bound:
      record.bounds = take_bounds(in);
      break;
    case RecordKind::End: {
      const uint8_t verdict = in.u8();
      if (verdict > static_cast<uint8_t>(ResponseReader::Verdict::Nothing)) return std::nullopt;
      record.verdict = static_cast<ResponseReader::Verdict>(verdict);
      record.model = take_model(in);
      for (const auto field : kUsageFields) record.usage.*field = in.u64();
      record.cost = take(in);
      record.estimate = take_bounds(in);
      record.estimate_cost = in.u64();
      record.once = in.u64();
      if (in && in.remaining() != 0) {  // older ones do not say
        const uint8_t operation = in.u8();
        if (operation >= kOperations) return std::nullopt;
        record.operation = static_cast<Operation>(operation);
      }
      break;
    }
    case RecordKind::Refused:
    case RecordKind::Reset:
      break;
    case RecordKind::SetBudget:
    case RecordKind::SetProviderBudget:
    case RecordKind::SetRunBudget:
      record.budget = take_budget(in);
      break;
  }
  if (!in || in.remaining() != 0) return std::nullopt;
  return record;
}

}

Bytes encode_journal(const Account& account) {
  Bytes out;
  Writer(out).text(kMagic);
  frame(out, snapshot(account));
  return out;
}

Bytes encode_record(const Record& record) {
  constexpr size_t kUsual = 256;
  Bytes payload;
  payload.reserve(kUsual);
  Writer out(payload);
  out.u8(static_cast<uint8_t>(record.kind));
  out.u64(record.id);
  out.u8(static_cast<uint8_t>(record.provider));
  switch (record.kind) {
    case RecordKind::Begin:
    case RecordKind::Bound:
      put(out, record.bounds);
      break;
    case RecordKind::End:
      out.u8(static_cast<uint8_t>(record.verdict));
      put(out, clean_model(record.model));
      for (const auto field : kUsageFields) out.u64(record.usage.*field);
      put(out, record.cost);
      put(out, record.estimate);
      out.u64(record.estimate_cost);
      out.u64(record.once);
      out.u8(static_cast<uint8_t>(record.operation));
      break;
    case RecordKind::Refused:
    case RecordKind::Reset:
      break;
    case RecordKind::SetBudget:
    case RecordKind::SetProviderBudget:
    case RecordKind::SetRunBudget:
      put(out, record.budget);
      break;
  }
  Bytes framed;
  framed.reserve(payload.size() + 8);
  frame(framed, payload);
  return framed;
}

std::optional<ReadJournal> read_journal(ByteView data) {
  ReadJournal out;
  if (data.empty()) return out;
  const std::string_view text = as_text(data);
  if (!text.starts_with(kMagic)) {
    // The first write was cut short.
    if (!kMagic.starts_with(text)) return std::nullopt;
    out.torn = true;
    return out;
  }
  Reader in(data.subspan(kMagic.size()));
  bool first = true;
  while (in.remaining() != 0) {
    const uint32_t length = in.u32();
    if (length == 0 || length > kMaxJournalRecord) break;
    const ByteView payload = in.bytes(length);
    const uint32_t checksum = in.u32();
    if (!in || checksum != crc32(0, as_text(payload))) break;
    Reader fields(payload);
    const uint8_t kind = fields.u8();
    if (first) {
      auto account = kind == kSnapshot || kind == kFormerSnapshot
                         ? read_snapshot(fields, kind == kFormerSnapshot)
                         : std::nullopt;
      if (!account) return std::nullopt;
      out.account = std::move(*account);
    } else {
      const auto record = read_record(kind, fields);
      if (!record) return std::nullopt;
      out.account.apply(*record);
    }
    first = false;
    out.good = data.size() - in.remaining();
  }
  out.torn = out.good != data.size();
  return out;
}

uint64_t once_key(Provider provider, std::string_view id) noexcept {
  // FNV-1a: nobody gains by two batches of one key but who pays for both.
  uint64_t hash = 0xcbf29ce484222325U ^ static_cast<uint64_t>(provider);
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash == 0 ? 1 : hash;
}

}
