"""gold.word_counts: how often each word was logged."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model import Totals, table

# Letters of any alphabet, with apostrophes between them: digits and punctuation part words, so
# that the number of an order does not become a word of its own.
_WORD = r"\p{L}+(?:'\p{L}+)*"


@table(
    "gold.word_counts",
    inputs={"logs": "silver.app_logs"},
    kind=Totals(by=("word",)),
    freshness="1 minute",
    owner="platform",
)
def word_counts(logs: DataFrame) -> DataFrame:
    """One row per word of the log messages, in lower case, with its occurrences; "the" is left out.

    A word is a run of letters, with apostrophes inside: "Can't reach host-7!" has can't, reach and
    host.
    """
    words = F.regexp_extract_all(F.lower("message"), F.lit(_WORD), F.lit(0))
    return (
        logs.select(F.explode(words).alias("word"))
        .where("word <> 'the'")
        .select("word", F.lit(1).cast("bigint").alias("occurrences"))
    )
