"""What holds for the predictions of every lesson: each stated answer is what is computed. A lesson makes its test from
here:

    test_answers = prediction_test(predictions.PREDICTIONS, {"4.2-added": lambda: (o_0 + o_1) / (l_0 + l_1), ...})

A computed number is rounded to the digits that the answer has; for one of options the function returns the option.
"""

import pytest


def prediction_test(predictions, computed: dict):
    assert [prediction.name for prediction in predictions] == list(computed), "predictions without a test, or reversed"

    @pytest.mark.parametrize("prediction", predictions, ids=lambda prediction: prediction.name)
    def answers(prediction):
        found = computed[prediction.name]()
        if not prediction.options:
            decimals = len(str(prediction.answer).partition(".")[2])
            found = round(float(found), decimals)
        assert found == prediction.answer

    return answers
